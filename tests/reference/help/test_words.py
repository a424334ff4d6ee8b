"""What the words of the texts are: the tables, `explorer.glossary`, and the same under the pointer and by F1 in the view."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.errors import InputError
from explorer.reference.help.words import NAMES, TABLES, explanation, table
from tests.facts import says, untold
from tests.in_tab import SOURCES, go_to_line

ROOT = Path(__file__).parents[3]
RECORDED = ("mlp_train-torch2.11-cuda", "toy_example-torch2.13-cpu", "views/rotary-torch2.13-h100", "iree_linear-torch2.13-cpu")
ENGINES = ("onnxrt_linear-torch2.13-cpu", "tvm_linear-torch2.13-cpu")


@pytest.fixture(scope="module")
def coverage(module_at) -> Any:
    """The script that measures how much has help."""
    return module_at(ROOT / "benchmarks" / "help.py")


@pytest.mark.parametrize("name", NAMES)
def test_a_table_states_its_source_and_has_one_line_and_a_link_for_each_word(name):
    """Each entry is one short line of text with a link to documentation; no word stands in a table twice."""
    known = table(name)
    assert known.source
    text = (ROOT / "explorer" / "reference" / "help" / f"{name}.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("# ")]
    words = [word for row in rows for word in row[0].split()]
    assert len(words) > 100
    for each in [*known.words.values(), *(each for _, each in known.beginnings)]:
        assert each.link.startswith("https://"), each
        assert 3 < len(each.about) < 130 and not each.about.endswith("."), each
    assert sorted(words) == sorted(set(words))


def test_explain_finds_a_word_as_a_text_has_it():
    """Suffixes, prefixes and namespaces are left off; several languages with the word give a row each."""
    (row,) = explorer.glossary("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16")
    assert row["language"] == "ptx" and row["word"] == "wgmma.mma_async" and "Hopper" in row["about"]
    assert row["link"].startswith("https://docs.nvidia.com/cuda/parallel-thread-execution/")
    assert explorer.glossary("tcgen05.mma.cta_group::1.kind::f16")[0]["word"] == "tcgen05.mma"
    assert explorer.glossary("torch.ops.aten.addmm.default")[0]["link"].endswith("torch.addmm.html")
    assert explorer.glossary("v_mfma_f32_32x32x8_f16")[0]["word"] == "v_mfma_*"
    assert explorer.glossary("vfmadd231ps")[0]["language"] == "x86"
    assert explorer.glossary("HGMMA")[0]["language"] == "sass"
    assert explorer.glossary("ttg.convert_layout")[0]["language"] == "mlir"
    assert explorer.glossary("aten::add.Tensor")[0]["word"] == "aten.add"
    assert {row["language"] for row in explorer.glossary("add")} == {"ptx", "x86"}
    assert [row["language"] for row in explorer.glossary("add", "asm")] == ["x86"]


def test_the_name_of_a_table_asks_that_table_alone():
    """The table of a language is asked by other languages too."""
    assert explorer.glossary("tt.load", "mlir")
    with pytest.raises(InputError, match=says("word", "'tt.load'")):
        explorer.glossary("tt.load", "aten")
    assert not untold(explorer.glossary("bar.warp.sync", "ptx")[0]["about"], "warp")


def test_an_unknown_word_offers_the_nearest():
    """A word that no table has, and a language without a table, are refused with what there is."""
    with pytest.raises(InputError, match=says("'wgma'", "'wgmma'")):
        explorer.glossary("wgma")
    with pytest.raises(InputError, match=says("language", "'cobol'")):
        explorer.glossary("add", "cobol")


def test_what_the_recordings_have_has_help(coverage, replayed):
    """In each language of four recordings at least 95 of 100 instructions, operations and operators have help."""
    counts = coverage.counts(artifact for name in RECORDED for artifact in replayed(name).artifacts)
    assert {"ptx", "mlir", "fx", "asm", "triton", "inductor-ir"} <= set(counts)
    shares = {language: coverage.covered(language, words)[1] for language, words in counts.items()}
    assert {language: share for language, share in shares.items() if share < 0.95} == {}
    assert sum(sum(words.values()) for words in counts.values()) > 3000


def test_operators_of_other_engines_have_help(replayed):
    """Each operator of an ONNX graph and of TVM's Relax has a line and a link, however it is qualified."""
    onnx, tvm = map(replayed, ENGINES)
    graphs = [artifact.data for artifact in onnx.artifacts if artifact.language == "onnx"]
    asked = {("onnx", node.target) for graph in graphs for node in graph.nodes if node.op != "placeholder"}
    asked |= {("python", word) for a in tvm.find("tvm_relax") for word in re.findall(r"\bR\.[\w.]+", a.text)}
    assert len(asked) > 10
    assert {(language, word) for language, word in asked if explanation(language, word) is None} == set()
    for word in ("onnx::Gemm", "ai.onnx.Gemm", "Gemm"):
        assert [(row["language"], row["word"]) for row in explorer.glossary(word)] == [("onnx", "Gemm")]
    assert explorer.glossary("R.nn.relu")[0]["link"].endswith("#tvm.relax.op.nn.relu")
    assert explanation("python", "x.R.matmul") is None  # an attribute of the program's own
    assert not untold(explorer.glossary("occupancy")[0]["about"], "warps", "registers", "shared memory")


def test_the_browser_finds_what_python_finds(tabs, replayed):
    """The front end's look-up gives the same entry and link as Python's for every word of the recordings' texts."""
    words = (SOURCES / "words.js").read_text(encoding="utf-8")
    read = {name: (ROOT / "explorer" / "reference" / "help" / f"{name}.tsv").read_text(encoding="utf-8") for name in NAMES}
    tables = "".join(f"const {name} = {json.dumps(text)};" for name, text in read.items())
    code = re.sub(r"^export ", "", re.sub(r"^import .*;\n", "", words, flags=re.MULTILINE), flags=re.MULTILINE)
    asked = {
        ("ptx", "ld.global.nc"),
        ("sass", "HGMMA.64x64x16.F32"),
        ("amdgcn", "v_mfma_f32_32x32x8_f16"),
        ("asm", "vfmadd231ps"),
    }
    for artifact in (a for name in (*RECORDED, *ENGINES) for a in replayed(name).artifacts if a.language in TABLES):
        asked |= {(artifact.language, word) for word in re.findall(r"[\w.$%]+", artifact.text)}
    tab = tabs()
    script = "([code, asked]) => { const find = new Function(code)(); return asked.map(([a, b]) => find(a, b)) }"
    found = tab.evaluate(script, [f"{tables}{code}; return explanation", sorted(asked)])
    helped = 0
    for (language, word), answer in zip(sorted(asked), found, strict=True):
        expected = explanation(language, word)
        shown = {"entry": expected.entry, "about": expected.about, "link": expected.link} if expected else None
        assert answer == shown, (language, word)
        helped += answer is not None
    assert helped > 300


def test_help_stands_under_the_pointer_and_at_the_caret(opened, replayed):
    """The word under the pointer is explained with a link; F1 does it for the word at the caret, and Escape leads back."""
    trace = replayed("mlp_train-torch2.11-cuda")
    tab = opened(trace)
    ptx = next(n for n, a in enumerate(trace.artifacts) if a.stage == "ptx")
    line = next(n for n, text in enumerate(trace.artifacts[ptx].lines, 1) if text.startswith("\tmul.f32"))
    pane = tab.get_by_role("region", name="left text", exact=True)
    pane.locator("select").select_option(str(ptx))
    text = pane.locator(".cm-content")
    go_to_line(text, line)
    tab.keyboard.press("F1")
    help_text = tab.locator(".cm-tooltip .word-help")
    known = explanation("ptx", "mul.f32")
    assert known and help_text.inner_text() == f"mul.f32 {known.about} documentation"
    link = help_text.locator("a")
    assert link.get_attribute("href").endswith("#integer-arithmetic-instructions-mul")
    assert link.evaluate("e => e === e.getRootNode().activeElement")
    tab.keyboard.press("Escape")
    help_text.wait_for(state="detached")
    assert text.evaluate("e => e === e.getRootNode().activeElement")
    pane.locator(f".line[data-line='{line}']").hover(position={"x": 60, "y": 8})
    help_text.wait_for()
    assert help_text.inner_text().startswith(f"mul.f32 {known.about}")
