"""How Sphinx builds the site: `make docs`. The source folder is the root of the repository, so a link works here as on GitHub."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for the extension below

import explorer  # noqa: E402

project = "explorer"
author = "the authors of explorer"
version = release = explorer.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "site_pages"]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "notebooks/*.ipynb",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "binder/README.md",
    "benchmarks/README.md",
    "skills/**.md",
]
# folders that Sphinx need not walk through
exclude_patterns = [".*", "**/.ipynb_checkpoints", "docs/_build", "docs/plugin", "explorer", "tests", "node_modules"]
exclude_patterns += ["build", "class-pack", "demo", "dist", "release"]

# Anchors and figures of other pages, and of notebooks, are looked at by links.py in what was built.
# Warnings are errors (make docs passes -W); a cross-reference that leads nowhere is one.
nitpicky = True
nitpick_ignore_regex = [
    # Python's own types: its documentation is on a network, and the build needs none
    ("py:class", r"(collections\.abc\.|os\.|pathlib\.)?(Mapping|Sequence|Iterable|Iterator|Callable|PathLike|Path)(\[str)?"),
    ("py:class", r"t\.Any"),  # traitlets' own
    ("py:class", r"tuple\[\w+"),  # the text of an annotation that autodoc cut at its comma
    # values inside an answer, of which its docstring says what a user needs
    ("py:class", r"explorer\.(model\.trace_data\.TraceData|stages\.inductor\.verdicts\.Verdicts)"),
    ("py:class", r"explorer\.capture\.splice\.launches\.RecordedLaunch"),
    ("py:class", r"explorer\.reference\.layouts\.(banks\.BankUse|linear\.LinearLayout)"),
    ("py:class", r"explorer\.analysis\.questions\.(line_texts\.LineTexts|operator_places\.OperatorPlace|subgraph\.Subgraph)"),
    ("py:class", r"explorer\.analysis\.questions\.fusion\.Step"),
    ("py:class", r"explorer\.analysis\.questions\.rows\.\w+Row"),
    # JSON's own values, and what is behind `Trace.live`: each verb of it is a method of Trace or Kernel
    ("py:class", r"Plain|(explorer\.lab\.live\.protocol\.)?Live"),
]

# `make docs-links` asks other sites; of this one links.py knows more
linkcheck_ignore = [r"gallery/"]
linkcheck_timeout = 20

# Markdown and the notebooks -----------------------------------------------------------------------------------------------

nb_execution_mode = "off"  # `make outputs` runs the notebooks; the site shows the outputs that they are kept with
myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "fieldlist"]

# The reference, of the docstrings -----------------------------------------------------------------------------------------

default_role = "code"  # docstrings write `name`, as Markdown does
autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True  # as they are written, not the text of all stages
python_use_unqualified_type_names = True
add_module_names = False

# What it looks like -------------------------------------------------------------------------------------------------------

html_theme = "furo"
html_title = f"explorer {version}"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_search_summary = False  # the search would fetch each page for it, which a folder does not allow
html_show_copyright = False  # LICENSE has it
