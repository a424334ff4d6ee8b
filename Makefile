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
# How many tests run at once. A C++ compile holds a core for seconds, so more than the cores does not help.
JOBS ?= 2

# One cache for all runs: Inductor's precompiled header alone takes 17 to 35 s to make.
export TORCHINDUCTOR_CACHE_DIR ?= $(CURDIR)/.cache/inductor
export TRITON_CACHE_DIR ?= $(CURDIR)/.cache/triton

.PHONY: help demo lab test whole faults check notebooks outputs docs docs-links classroom class-pack binder wheel widget widget-check types venv which-python clean

help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(INSTALLED) ## trace a transformers model, print its stages, write demo/gpt2.html
	$(BIN)/python -m explorer.demo

lab: $(INSTALLED) ## the first notebook in JupyterLab, on this machine only
	$(BIN)/jupyter lab --ip=127.0.0.1 $(if $(filter 0,$(shell id -u)),--allow-root) $(firstword $(sort $(wildcard notebooks/*.ipynb)))

test: $(INSTALLED) ## the tests, large tables of cases sampled
	$(BIN)/python -m pytest -n $(JOBS) tests

whole: $(INSTALLED) ## the tests with every case of those that `make test` samples, but for `make classroom`'s
	$(BIN)/python -m pytest -n $(JOBS) --whole --ignore=tests/quiz/test_notebooks_in_lab.py tests

faults: $(INSTALLED) ## fail each function that runs while a program compiles, one after the other: an hour
	$(BIN)/python benchmarks/faults.py h100 --jobs $(JOBS)
	$(BIN)/python benchmarks/faults.py record_h100 --jobs $(JOBS)
	$(BIN)/python benchmarks/faults.py record --jobs $(JOBS)

check: $(INSTALLED) node_modules/.installed ## lint, format and types, of Python and of the front end
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	npm run --silent check

notebooks: $(INSTALLED) ## run every notebook from top to bottom
	$(BIN)/python -m pytest -n $(JOBS) --nbmake --nbmake-timeout=600 notebooks

outputs: $(INSTALLED) ## run every notebook and write the outputs with which it is kept
	$(BIN)/python docs/outputs.py

docs: $(DOCS_INSTALLED) ## the documentation site and its gallery, in docs/_build/html; warnings and dead links are errors
	$(BIN)/python docs/build.py

docs-links: docs ## ask other sites whether what the documentation links to is there: it needs a network
	$(BIN)/python -m sphinx -q -b linkcheck -c docs -d docs/_build/doctrees . docs/_build/links

classroom: $(INSTALLED) ## every notebook in JupyterLab, answered rightly, wrongly and not at all, as a table: half an hour
	$(BIN)/python -m pytest -n $(JOBS) --whole tests/quiz/test_notebooks_in_lab.py

class-pack: $(INSTALLED) ## copies of the notebooks that run without PyTorch, with recorded traces, in class-pack/
	$(BIN)/explorer classpack notebooks/*.ipynb -o class-pack

binder: $(INSTALLED) ## check binder/ as far as that goes without docker
	$(BIN)/python binder/check.py

wheel: $(INSTALLED) ## build dist/'s wheel, and try it in empty environments, without torch and with it
	$(BIN)/python .ci/wheel.py

widget: node_modules/.installed ## bundle the front end of explorer/widget
	npm run --silent build

widget-check: ## the committed bundle is what its sources make
	$(MAKE) --silent widget
	git diff --exit-code --stat -- explorer/widget/static

types: $(INSTALLED) ## write the front end's types, of explorer/wire.py
	$(BIN)/python tests/wire_types.py

node_modules/.installed: package.json package-lock.json
	npm ci --no-audit --no-fund
	touch $@

venv: $(INSTALLED) ## only the environment

# torch goes first and alone: its version decides everything else, and where pip is given an index of CPU builds
# (PIP_EXTRA_INDEX_URL, see CONTRIBUTING.md) the constraint takes the build from there.
$(INSTALLED): pyproject.toml constraints.txt
	@"$(PYTHON)" -c '$(MODERN)' || { echo 'explorer needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …' >&2; exit 1; }
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt torch
	$(BIN)/python -m pip install -c constraints.txt -e ".[dev]"
	touch $@

$(DOCS_INSTALLED): $(INSTALLED) pyproject.toml constraints.txt
	$(BIN)/python -m pip install -c constraints.txt -e ".[docs]"
	touch $@

which-python: # the Python that .venv is made with; nothing where there is none
	@echo "$(PYTHON)"

clean: ## remove the environment and all caches
	rm -rf $(VENV) node_modules dist class-pack docs/_build .cache .mypy_cache .pytest_cache .ruff_cache
