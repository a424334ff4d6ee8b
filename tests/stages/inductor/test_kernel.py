"""Kernel: its own artifact, linked line by line to the wrapper that it was cut out of."""

from __future__ import annotations

from explorer.model.records import blank
from explorer.model.values import Artifact, Event, plain
from explorer.stages.inductor.kernel import STAGE, owners
from explorer.stages.inductor.scheduler_ir import SchedulerNode
from explorer.tracing.traced import Trace

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
    made = STAGE.artifact_of(EVENT, "id")
    assert (made.kernel, made.language, made.title) == ("k0", "triton", "Kernel k0")
    assert made.lines == ("import triton", "@triton.jit", "def k0(): pass")


def test_each_line_links_to_its_line_in_the_wrapper() -> None:
    """Line 1 is the wrapper's line 4 here, and so on; the wrapper is the one of the same frame and graph."""
    made = STAGE.artifact_of(EVENT, "k")
    others = (wrapper("backward", "0/0", "backward"), wrapper("ours", "0/0", "forward"), wrapper("other", "1/0", "forward"))
    links = list(STAGE.link(made, Trace(artifacts=(*others, made))))
    assert [(link.source_lines, link.target, link.target_lines) for link in links] == [
        ((1,), "ours", (4,)),
        ((2,), "ours", (5,)),
        ((3,), "ours", (6,)),
    ]
    for link in links:
        assert made.lines[link.source_lines[0] - 1] == WRAPPER.splitlines()[link.target_lines[0] - 1]


def test_without_its_wrapper_a_kernel_has_no_links() -> None:
    """No link rather than a guess."""
    assert list(STAGE.link(STAGE.artifact_of(EVENT, "k"), Trace())) == []


# The FX node of each line ------------------------------------------------------------------------------------------------

BODY = """@triton.jit
def _triton_helper_fn_add0(arg0_0, arg1_0):
    tmp0 = arg0_0 + arg1_0
    return tmp0
@triton.jit
def k0(in_ptr0, out_ptr0):
    x0 = xindex
    _tmp2 = tl.full([1], 0, tl.float32)
    tmp0 = tl.load(in_ptr0 + x0)
    _tmp2 = tl.associative_scan((tmp0,), 0, _triton_helper_fn_add0)"""


def kernel(*definitions: dict[str, object], text: str = BODY) -> Artifact:
    data = {"name": "k0", "language": "triton", "text": text, "wrapper_line": 10, "comment": "", "definitions": definitions}
    return STAGE.artifact_of(Event("kernel", 1.0, "0/0", "forward", plain(data)), "k")


def definition(
    *lines: tuple[int, str], template: tuple[str, ...] = (), operations: tuple[str, ...] = ("op0",)
) -> dict[str, object]:
    return {"name": "k0", "lines": lines, "operations": operations, "template": template}


def test_lines_have_the_nodes_that_were_under_way_when_they_were_written() -> None:
    """Index lines belong to none; an accumulator's first line and a helper's lines belong to the line that uses them."""
    found = owners(kernel(definition((7, "load"), (9, "load"), (10, "cumsum"))))
    assert found == {
        9: (("load",), "codegen"),
        10: (("cumsum",), "codegen"),
        8: (("cumsum",), "codegen, by its variable"),
        3: (("cumsum",), "codegen, by its call"),
        4: (("cumsum",), "codegen, by its call"),
    }


def test_a_variable_that_is_begun_in_two_steps_belongs_to_its_use() -> None:
    """A local buffer: the memory, the pointer into it, and the line that stores there."""
    body = (
        'extern "C" void k0()\n{\n    std::unique_ptr<float []> buf_data = std::make_unique<float []>(8L);\n'
        "    float* data = buf_data.get();\n    data[0] = tmp0;\n}"
    )
    event = {
        "name": "k0",
        "language": "cpp",
        "text": body,
        "wrapper_line": 10,
        "comment": "",
        "definitions": [definition((5, "exp"))],
    }
    found = owners(STAGE.artifact_of(Event("kernel", 1.0, "0/0", "forward", plain(event)), "k"))
    assert {n: found[n][0] for n in found} == {3: ("exp",), 4: ("exp",), 5: ("exp",)}


def test_a_kernel_that_was_defined_again_for_other_nodes_has_both() -> None:
    """Such as one kernel for two layers of a model."""
    assert owners(kernel(definition((9, "a")), definition((9, "b"))))[9] == (("a", "b"), "codegen")


def test_what_a_template_wrote_belongs_to_its_node() -> None:
    """All lines that compute and were not written for another node do."""
    found = owners(kernel(definition((10, "relu"), template=("mm",))))
    assert found[9] == (("mm",), "template") and found[10] == (("relu",), "codegen") and 7 not in found


def test_without_a_record_no_line_has_a_node() -> None:
    """Recordings from before kernels' lines were recorded still replay."""
    assert owners(kernel()) == {}


def test_a_line_and_its_copy_in_the_wrapper_lead_to_the_node() -> None:
    """Both are linked to the post-grad graph's line; the kernel's first line to its scheduler node."""
    graph = Artifact("graph", "post_grad", "0/0", "forward", "", "fx", "class M(torch.nn.Module):\n        load = f()")
    ir = Artifact(
        "ir",
        "ir_post_fusion",
        "0/0",
        "forward",
        "",
        "ir",
        "op0_op1: FusedSchedulerNode()",
        data=plain({"nodes": [blank(SchedulerNode, name="op0_op1", fused=["op0", "op1"])]}),
    )
    made = kernel(definition((9, "load")))
    found = {
        (link.source, n, link.target, link.target_lines, link.how)
        for link in STAGE.link(made, Trace(artifacts=(graph, ir, wrapper("w", "0/0", "forward"), made)))
        for n in link.source_lines
        if link.how != "cut out of the output code"
    }
    assert found == {
        ("k", 9, "graph", (2,), "codegen"),
        ("w", 18, "graph", (2,), "codegen"),
        ("k", 6, "ir", (1,), "define_kernel"),
    }
