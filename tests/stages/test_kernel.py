"""Kernel: its own artifact, linked line by line to the wrapper that it was cut out of."""

from __future__ import annotations

from explorer.model import Artifact, Event, plain
from explorer.stages.kernel import STAGE
from explorer.traced import Trace

WRAPPER = "import torch\n\nk0 = async_compile.triton('k0', '''\nimport triton\n@triton.jit\ndef k0(): pass\n''')\n"
EVENT = Event(
    "kernel",
    1.0,
    "0/0",
    "forward",
    plain(
        {
            "name": "k0",
            "language": "triton",
            "text": "import triton\n@triton.jit\ndef k0(): pass",
            "wrapper_line": 4,
            "comment": "",
        }
    ),
)


def wrapper(id: str, frame: str, graph: str) -> Artifact:
    return Artifact(id, "output_code", frame, graph, "Output code", "python", WRAPPER)


def test_the_artifact_says_which_kernel_and_in_which_language() -> None:
    """Name, language and source are those of the event."""
    made = STAGE.render(EVENT, "id")
    assert (made.kernel, made.language, made.title) == ("k0", "triton", "Kernel k0")
    assert made.lines == ["import triton", "@triton.jit", "def k0(): pass"]


def test_each_line_links_to_its_line_in_the_wrapper() -> None:
    """Line 1 is the wrapper's line 4 here, and so on; the wrapper is the one of the same frame and graph."""
    made = STAGE.render(EVENT, "k")
    others = (wrapper("backward", "0/0", "backward"), wrapper("ours", "0/0", "forward"), wrapper("other", "1/0", "forward"))
    links = list(STAGE.link(made, Trace(artifacts=(*others, made))))
    assert [(link.source_lines, link.target, link.target_lines) for link in links] == [
        ((1,), "ours", (4,)), ((2,), "ours", (5,)), ((3,), "ours", (6,)),
    ]  # fmt: skip
    for link in links:
        assert made.lines[link.source_lines[0] - 1] == WRAPPER.splitlines()[link.target_lines[0] - 1]


def test_without_its_wrapper_a_kernel_has_no_links() -> None:
    """No link rather than a guess."""
    assert list(STAGE.link(STAGE.render(EVENT, "k"), Trace())) == []
