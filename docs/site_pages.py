"""What the site has beside its Markdown: the command line from its parser, where notebooks run, a front door at index.html."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gallery
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from explorer.entry import cli
from explorer.model.stage import Stage
from explorer.stages import STAGES

#: The pages that explain the stages.
EXPLANATION = Path(__file__).parent / "explanation"
#: The page at the top of the site, for a folder that is opened, and for a server.
FRONT_DOOR = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>explorer</title>
<meta http-equiv="refresh" content="0; url=docs/index.html"></head>
<body><p><a href="docs/index.html">The documentation of explorer</a></p></body></html>
"""


class CommandLine(Directive):
    """`{command-line}`: each subcommand with its usage, its arguments and what its function's docstring says."""

    def run(self) -> list[nodes.Node]:
        return [section(name, command) for name, command in commands(cli.parser()).items()]


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each subcommand."""
    (action,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(action.choices)


def section(name: str, command: argparse.ArgumentParser) -> nodes.section:
    made = nodes.section(ids=[f"explorer-{name}"], names=[f"explorer {name}"])
    made += nodes.title("", "", nodes.literal("", f"explorer {name}"))
    made += nodes.paragraph("", command.description or "")
    usage = " ".join(command.format_usage().removeprefix("usage: ").split())
    made += nodes.literal_block(usage, usage, language="text")
    made += nodes.definition_list("", *map(argument, described(command)))
    said = inspect.getdoc(command.get_default("run")) or ""
    made += [nodes.paragraph("", "", *code_in(part)) for part in said.split("\n\n")]
    return made


def described(command: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    return (action for action in command._actions if not isinstance(action, argparse._HelpAction))


def argument(action: argparse.Action) -> nodes.definition_list_item:
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    shown = ", ".join(f"{option} {metavar}".strip() for option in action.option_strings) or metavar
    words = nodes.paragraph("", "", *code_in(action.help or ""))
    return nodes.definition_list_item("", nodes.term("", "", nodes.literal("", shown)), nodes.definition("", words))


def code_in(text: str) -> Iterator[nodes.Node]:
    """Yield a text with what stands between backticks as code."""
    for number, part in enumerate(" ".join(text.split()).split("`")):
        if part:
            yield nodes.literal("", part) if number % 2 else nodes.Text(part)


class Gallery(Directive):
    """`{gallery} NAME`: the page of that name that `gallery.py` made, and links to places in it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        file = gallery.FOLDER / "index.json"
        if not file.exists():
            raise self.severe("the gallery was not made: run docs/gallery.py first, or docs/build.py, which does")
        (entry,) = (entry for entry in gallery.ENTRIES if entry.name == self.arguments[0])
        facts = json.loads(file.read_text(encoding="utf-8"))[entry.name]
        page = f"gallery/{entry.name}.html"
        whole = nodes.strong("", "", link(page, "Open the trace"))
        about = f" · {' and '.join(facts['targets'])} · {facts['counts']} · {facts['bytes'] / 1e6:.1f} MB"
        places = [link(page + end, place.words) for place, end in zip(entry.places, facts["links"], strict=True)]
        items = [nodes.list_item("", nodes.paragraph("", "", place)) for place in places]
        return [nodes.paragraph("", "", whole, nodes.Text(about)), nodes.bullet_list("", *items)]


def link(address: str, words: str) -> nodes.reference:
    return nodes.reference("", words, refuri=address)


class RunOnline(Directive):
    """`{run-online} NOTEBOOK`: where a notebook can be run without an install, if the address of the repository is known.

    GitHub's CI names the repository and the branch. Elsewhere the page has no such links.
    """

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        repository, branch = os.environ.get("GITHUB_REPOSITORY", ""), os.environ.get("GITHUB_REF_NAME", "main")
        if not repository:
            return []
        notebook = f"notebooks/{self.arguments[0]}.ipynb"
        binder = link(f"https://mybinder.org/v2/gh/{repository}/{branch}?urlpath=lab/tree/{notebook}", "Open on Binder")
        colab = link(f"https://colab.research.google.com/github/{repository}/blob/{branch}/{notebook}", "Open in Colab")
        install = f"%pip install 'torch-compile-explorer[full] @ git+https://github.com/{repository}'"
        first = [nodes.Text(", and run this in a first cell: "), nodes.literal("", install)]
        return [nodes.paragraph("", "", binder, nodes.Text(" · "), colab, *first)]


class StageFacts(SphinxDirective):
    """`{stage} NAME`: what explorer itself says of a stage, where it is in the view, and whose it is."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        (stage,) = (stage for stage in STAGES if stage.name == self.arguments[0])
        return [nodes.paragraph("", "", nodes.strong("", f"{stage.title}. "), *code_in(stage.about))]


class StagesOfCompiler(SphinxDirective):
    """`{stages} BACKEND`: the stages of one compiler, with what explorer says of each."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        items = [stage_item(stage) for stage in STAGES if stage.backend == self.arguments[0]]
        return [nodes.definition_list("", *items)]


class StagesWithoutSection(SphinxDirective):
    """`{other-stages}`: the stages that no page of docs/explanation/ has a section for, with what explorer says of each."""

    def run(self) -> list[nodes.Node]:
        items = [stage_item(stage) for stage in without_section(EXPLANATION)]
        return [nodes.definition_list("", *items)] if items else []


def without_section(folder: Path) -> list[Stage]:
    """The stages that the pages of a folder show neither by `{stage}` nor by `{stages}` of their compiler."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md")))
    named, listed = (set(re.findall(rf"^```\{{{word}\}} (\w+)$", text, re.M)) for word in ("stage", "stages"))
    return [stage for stage in STAGES if stage.name not in named and stage.backend not in listed]


def stage_item(stage: Stage) -> nodes.definition_list_item:
    term = nodes.term("", "", nodes.literal("", stage.name))
    return nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph("", "", *code_in(stage.about))))


# References in types ------------------------------------------------------------------------------------------------------


def by_last_name(app: Sphinx, env: Any, node: Any, contnode: nodes.Element) -> nodes.Element | None:
    """Resolve a type that a signature names without its module: the one documented class of that name."""
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    last = node["reftarget"].rpartition(".")[2]
    classes = ((name, entry) for name, entry in domain.objects.items() if entry.objtype == "class")
    found = {(entry.docname, entry.node_id) for name, entry in classes if name.rpartition(".")[2] == last}
    if len(found) != 1:
        return None
    ((page, place),) = found
    made = nodes.reference("", "", contnode, internal=True)
    made["refuri"] = f"{app.builder.get_relative_uri(node['refdoc'], page)}#{place}"
    return made


#: The rooms whose classes a user constructs; of the others explorer does, so their constructors are no part of the reference.
CONSTRUCTED = ("explorer.model.", "explorer.reference.gpus.", "explorer.studies.varying.vary.", "explorer.quiz.")


def without_constructor(app: Sphinx, what: str, name: str, obj: Any, *about: Any) -> Any:
    """Leave out the constructor of a class that only explorer constructs."""
    if what == "class" and not f"{obj.__module__}.".startswith(CONSTRUCTED):
        return "", None
    return None


def front_door(app: Sphinx, error: Exception | None) -> None:
    """Write index.html, which leads to the first page."""
    if error is None and app.builder.name == "html":
        Path(app.outdir, "index.html").write_text(FRONT_DOOR, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("command-line", CommandLine)
    app.add_directive("gallery", Gallery)
    app.add_directive("run-online", RunOnline)
    app.add_directive("stage", StageFacts)
    app.add_directive("stages", StagesOfCompiler)
    app.add_directive("other-stages", StagesWithoutSection)
    app.connect("missing-reference", by_last_name)
    app.connect("autodoc-process-signature", without_constructor)
    app.connect("build-finished", front_door)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
