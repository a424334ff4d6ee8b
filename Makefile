# The commands of a developer and of CI: they are the same. Each makes .venv first, or again after a change of what it holds.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

# Any Python from 3.11 on; `make test PYTHON=/path/to/python3.12` picks another.
MODERN := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3.11 python3 python; do "$$p" -c '$(MODERN)' >/dev/null 2>&1 && echo "$$p" && break; done)

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# what only the documentation site needs, so that the other commands do not wait for it
DOCS_INSTALLED := $(VENV)/.docs-installed
# what only a release needs
RELEASE_INSTALLED := $(VENV)/.release-installed
# How many tests run at once. A C++ compile holds a core for seconds, so more than the cores does not help.
JOBS ?= 2

# One cache for all runs: Inductor's precompiled header alone takes 17 to 35 s to make.
export TORCHINDUCTOR_CACHE_DIR ?= $(CURDIR)/.cache/inductor
export TRITON_CACHE_DIR ?= $(CURDIR)/.cache/triton

# Where bytecode is not kept, each process compiles explorer again, and pytest rewrites 900 modules at each start: some 10 s.
unexport PYTHONDONTWRITEBYTECODE

# `make test TIMES=file` adds the seconds of its tests to a file, so that the last of several runs prints them all.
TIMES ?=
# Each worker has a part of the tests in their order, so that what a module shares is made once, and takes from others at the end.
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(if $(TIMES),--times $(TIMES))

# `make test CHANGED=1`: only the tests that ran code which has changed since they passed. pytest-testmon notes which code each runs. It
# follows Python alone, in one process; the first run is a whole one. Where no test is affected pytest exits with 5.
CHANGED ?=
AFFECTED = mkdir -p .cache && TESTMON_DATAFILE=.cache/testmondata $(BIN)/python -m pytest --testmon-forceselect

# What the tests of the tier `docs` look at. `make test-rest BUILT=` leaves it as it is, where it was made just before.
BUILT ?= docs wheel

.PHONY: help demo lab test test-compile test-browser test-docs test-benchmarks test-rest test-all whole coverage mutants faults torch-report \
	check notebooks outputs docs docs-links classroom class-pack binder wheel release widget widget-check types venv which-python clean

help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(INSTALLED) ## trace a transformers model, print its stages, write demo/index.html
	$(BIN)/python -m explorer.entry.demo

lab: $(INSTALLED) ## the first notebook in JupyterLab, on this machine only
	$(BIN)/jupyter lab --ip=127.0.0.1 $(if $(filter 0,$(shell id -u)),--allow-root) $(firstword $(sort $(wildcard notebooks/*.ipynb)))

test: $(INSTALLED) ## the tests that read recordings and shared traces, and each verb once on the CPU and for an H100: minutes
	$(if $(CHANGED),$(AFFECTED),$(PYTEST)) -m "fast or smoke" tests $(if $(CHANGED),|| test $$? -eq 5)

test-compile: $(INSTALLED) ## the tests that compile programs of their own
	$(PYTEST) -m "compile and not smoke and not browser and not docs and not benchmarks" tests

test-browser: $(INSTALLED) node_modules/.installed ## the tests of the view, in Chromium, JupyterLab and Notebook 7
	$(PYTEST) -m "browser and not docs and not benchmarks" tests

test-docs: $(INSTALLED) $(BUILT) ## the site and its guides, the notebooks, binder/ and the wheel
	$(PYTEST) -m "docs and not benchmarks" --nbmake --nbmake-timeout=600 tests notebooks

test-benchmarks: $(INSTALLED) ## the tests of the scripts in benchmarks/
	$(PYTEST) -m benchmarks tests

test-rest: $(INSTALLED) $(BUILT) node_modules/.installed ## the tests that `make test` leaves out, in one run
	$(PYTEST) -m "not fast and not smoke" --nbmake --nbmake-timeout=600 tests notebooks

test-all: test test-rest ## all tests

whole: $(INSTALLED) ## the tests with every case of those that are sampled otherwise, but for `make classroom`'s
	$(PYTEST) --whole --ignore=tests/workshop/quiz/test_notebooks_in_lab.py tests

coverage: $(INSTALLED) $(BUILT) node_modules/.installed ## the lines that all tests run, room by room, kept in .cache/covered for benchmarks/mutants.py
	$(BIN)/python benchmarks/covered_lines.py run .cache/covered -n $(JOBS) --dist worksteal tests
	$(BIN)/python benchmarks/covered_lines.py table .cache/covered

mutants: $(INSTALLED) ## 60 small mistakes in explorer/, and how many the tests find, after `make coverage`: up to an hour
	$(BIN)/python benchmarks/mutants.py .cache/covered

faults: $(INSTALLED) ## fail each function that runs while a program compiles, in four ways: hours, fewer with more JOBS
	$(BIN)/python benchmarks/faults.py h100 --jobs $(JOBS)
	$(BIN)/python benchmarks/faults.py record_h100 --jobs $(JOBS)
	$(BIN)/python benchmarks/faults.py record --jobs $(JOBS)

# The environment of another torch, with the tested versions of all but what comes with it.
OTHER_TORCH := .cache/torch-$(TORCH)

torch-report: $(INSTALLED) ## what explorer reads and replaces of torch, in the tested release and in TORCH=2.15.0, or nightly, with the smoke tests
	@test -n "$(TORCH)" || { echo 'name a release: make torch-report TORCH=2.15.0' >&2; exit 1; }
	test -x $(OTHER_TORCH)/bin/python || "$(PYTHON)" -m venv $(OTHER_TORCH)
	grep -vE '^(torch|triton|setuptools)==' constraints.txt > $(OTHER_TORCH)/constraints.txt
	$(OTHER_TORCH)/bin/python -m pip install -c $(OTHER_TORCH)/constraints.txt "torch$(if $(filter-out nightly,$(TORCH)),==$(TORCH))" -e ".[dev]"
# a nightly build is above the range that pyproject.toml declares: pip says so, and installs it
	$(if $(filter nightly,$(TORCH)),$(OTHER_TORCH)/bin/python -m pip install --pre --upgrade torch)
	$(BIN)/python benchmarks/torch_report.py report $(BIN)/python $(OTHER_TORCH)/bin/python --jobs $(JOBS)

check: $(INSTALLED) node_modules/.installed ## lint, format and types, of Python and of the front end
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	npm run --silent check

notebooks: $(INSTALLED) ## run every notebook from top to bottom
	$(PYTEST) --nbmake --nbmake-timeout=600 notebooks

outputs: $(INSTALLED) ## run every notebook and write the outputs with which it is kept
	$(BIN)/python docs/outputs.py

docs: $(DOCS_INSTALLED) ## the documentation site and its gallery, in docs/_build/html; warnings and dead links are errors
	$(BIN)/python docs/build.py

docs-links: docs ## ask other sites whether what the documentation links to is there: it needs a network
	$(BIN)/python -m sphinx -q -b linkcheck -c docs -d docs/_build/doctrees . docs/_build/links

classroom: $(INSTALLED) ## every notebook in JupyterLab, answered rightly, wrongly and not at all, as a table: half an hour
	$(PYTEST) --whole tests/workshop/quiz/test_notebooks_in_lab.py

class-pack: $(INSTALLED) ## copies of the notebooks that run without PyTorch, with recorded traces, in class-pack/
	$(BIN)/explorer classpack -o class-pack

binder: $(INSTALLED) ## check binder/ as far as that goes without docker
	$(BIN)/python binder/check.py

wheel: $(INSTALLED) ## build dist/'s wheel, and try it in empty environments, without torch and with it
	$(BIN)/python .ci/wheel.py

release: $(RELEASE_INSTALLED) docs wheel ## release/: wheel, sdist, site and notes of a version, each tried; it installs torch once a Python
	$(BIN)/python .ci/release.py

widget: node_modules/.installed ## bundle the front end of explorer/widget
	npm run --silent build

widget-check: ## the committed bundle is what its sources make
	$(MAKE) --silent widget
	git diff --exit-code --stat -- explorer/view/widget/static

types: $(INSTALLED) ## write the front end's types, of explorer/view/wire.py
	$(BIN)/python tests/wire_types.py

node_modules/.installed: package.json package-lock.json
	npm ci --no-audit --no-fund
	touch $@

venv: $(INSTALLED) ## only the environment

# torch goes first and alone: its version decides everything else, and where pip is given an index of CPU builds
# (PIP_EXTRA_INDEX_URL, see docs/contributing/tests.md) the constraint takes the build from there.
$(INSTALLED): pyproject.toml constraints.txt
	@"$(PYTHON)" -c '$(MODERN)' || { echo 'explorer needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …' >&2; exit 1; }
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt torch
	$(BIN)/python -m pip install -c constraints.txt -e ".[dev]"
	touch $@

$(DOCS_INSTALLED): $(INSTALLED) pyproject.toml constraints.txt
	$(BIN)/python -m pip install -c constraints.txt -e ".[docs]"
	touch $@

$(RELEASE_INSTALLED): $(INSTALLED) pyproject.toml constraints.txt
	$(BIN)/python -m pip install -c constraints.txt -e ".[release]"
	touch $@

which-python: # the Python that .venv is made with; nothing where there is none
	@echo "$(PYTHON)"

clean: ## remove the environment and all caches
	rm -rf $(VENV) node_modules dist class-pack docs/_build .cache .mypy_cache .pytest_cache .ruff_cache
