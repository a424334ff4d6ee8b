"""Records that several stages share: a place in a file, an FX node, the source of a function, what a pass did.

Sizes and strides are in elements, each as text, since a size may be symbolic ("s77"); bytes, seconds and milliseconds are named.
A field whose default is None is one that not every row has.
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.model.records import Record, record
from explorer.model.values import Plain

#: What an option, a setting or an argument of a kernel may be.
Setting = str | int | float | bool | None
Names = tuple[str, ...]
#: A config of a Triton kernel: its block sizes, warps and stages, and of one that was measured `ms`.
Config = Mapping[str, Plain]


@record
class Nothing(Record):
    """A text without further facts."""


@record
class Text(Record):
    """A text alone, such as the runnable graph, or the reasons of a recompile."""

    text: str


@record
class Place(Record):
    """A line of a file, and the function it is in."""

    file: str
    line: int
    function: str


@record
class Output(Record):
    """One of several values that an FX node gives: a tensor, several values again, or the text of another value."""

    shape: Names | None = None
    stride: Names | None = None
    dtype: str | None = None
    device: str | None = None
    outputs: tuple[Output, ...] | None = None
    value: str | None = None


@record
class FxNode(Record):
    """A node of an FX graph.

    `op`, `target`, `args` and `kwargs` are torch.fx's, as text; `inputs` names the nodes it uses. `shape`, `stride`, `dtype` and
    `device` describe the tensor that the node returns, `outputs` each of several tensors; `value` is the text of any other
    result. `stack` is the place of its Python stack in the graph's `stacks`; `file`, `line`, `function` and `code` are the
    innermost place of it, which the stage adds. `module` is the nn.Module as the program calls it, in an event as Dynamo reaches
    it. `original` is the ATen operator it was decomposed from and `decomposition` where that is defined. `seq_nr` is autograd's
    number of the forward operator, `from_` names the nodes of the graph before that it was traced for, and `input` says what an
    input is to the program.
    """

    name: str
    op: str
    target: str
    args: str
    kwargs: str
    inputs: Names
    shape: Names | None = None
    stride: Names | None = None
    dtype: str | None = None
    device: str | None = None
    outputs: tuple[Output, ...] | None = None
    value: str | None = None
    stack: int | None = None
    module: str | None = None
    original: str | None = None
    decomposition: str | None = None
    seq_nr: int | None = None
    input: str | None = None
    from_: Names | None = None
    file: str | None = None
    line: int | None = None
    function: str | None = None
    code: str | None = None


@record
class TensorLayout(Record):
    """A tensor that an operator returns: sizes and strides in elements. A result that is not a tensor has no field."""

    size: Names | None = None
    stride: Names | None = None
    dtype: str | None = None
    alias: bool | None = None


@record
class OperatorCall(Record):
    """An operator that is computed as a whole, by a library or a template; see `capture/observe/operators.py`.

    `operations` counts floating-point or integer operations, None where no formula is known. `sizes` are batch, rows, columns and
    inner size of the matrix product that it computes. `strides` are the strides of its first two inputs, in elements. `view`
    tells that the operator's schema has its result share the memory of an argument, so that it moves and computes nothing.
    """

    operator: str
    operations: int | None
    template: bool
    buffer: str | None = None
    node: str | None = None
    dtype: str | None = None
    tf32: bool | None = None
    sizes: tuple[int, ...] | None = None
    groups: int | None = None
    channels: int | None = None
    transposed: bool | None = None
    strides: tuple[tuple[int, ...], ...] | None = None
    results: tuple[TensorLayout, ...] | None = None
    view: bool | None = None


@record
class Lookup(Record):
    """An access of a loop at places that it reads from memory, as an embedding's, or an atomic addition.

    `count` places are accessed, `run` adjacent bytes at each, in a buffer of `buffer` bytes. `adds` tells an atomic addition.
    """

    count: int
    run: int
    buffer: int
    adds: bool


@record
class Occupancy(Record):
    """How many blocks and warps of a kernel fit on a multiprocessor, and how many each limit would allow."""

    blocks: int
    warps: int
    fraction: float
    limited_by: str
    limits: Mapping[str, int]


@record
class Code(Record):
    """A code object: its function, and where that is defined; `resume` for one that Dynamo made to go on after a graph break."""

    function: str
    qualname: str
    file: str
    line: int
    resume: bool


@record
class Source(Code):
    """A function's source.

    `inlined` where it runs inside another's compile, `launches` where it launches Triton kernels itself, `unseen` where
    only line numbers are shown, "changed" or "none", or the lines that a log quotes, "quoted"; "today" where the file that
    a log names is shown as it is now. `not_compiled` counts the resume functions that were never compiled. `cell` names the
    cell of a notebook that `file` stands for, such as "In[5]".
    """

    first_line: int
    compiled: bool
    inlined: bool | None = None
    launches: bool | None = None
    unseen: str | None = None
    not_compiled: int | None = None
    cell: str | None = None


@record
class FxPass(Record):
    """A pass that changed an FX graph; `before` is the text of the graph before it, a node a line.

    `section` is the round of passes: "pre_grad", "joint" or "post_grad". `made` and `erased` name nodes, `replaced` the nodes
    whose uses each made one took, `parts` those that decompose another, `stacks` has the made ones' Python stacks. `names` and
    `targets` describe the node on each line of the text, without the output, which is last. `users` has the nodes that use a made
    one, where it takes no other's uses and states no line itself, in the order of their first use. `seconds` is what the pass
    took. `idle` has name and seconds of the passes since the last change, which changed nothing, `idle_after` of those after the
    last one.
    """

    name: str
    section: str
    before: str
    made: Names
    erased: Names
    seconds: float | None
    of: str | None = None
    stacks: Mapping[str, str] | None = None
    replaced: Mapping[str, Names] | None = None
    parts: Names | None = None
    names: Names | None = None
    targets: Names | None = None
    users: Mapping[str, Names] | None = None
    idle: tuple[tuple[str, float], ...] | None = None
    idle_after: tuple[tuple[str, float], ...] | None = None


@record
class PatternMatch(Record):
    """A pattern fired: where it is defined, which nodes it matched and made, and the made ones' Python stacks.

    `section` is the round of passes that it fired in, `of` the path of the graph, "" for the outermost. The text has under
    "matched" and under "made" a line a node; `matched_targets` and `made_targets` are these nodes' targets.
    """

    pattern: str
    of: str | None = None
    section: str | None = None
    kind: str
    file: str
    line: int
    matched: Names
    made: Names
    matched_targets: Names | None = None
    made_targets: Names | None = None
    stacks: Mapping[str, str] | None = None
    expression: str


@record
class KernelLines(Record):
    """What a kernel computes line by line: (line counted from 1, FX node), its scheduler nodes, its template's FX nodes.

    `nodes` are all FX nodes that it computes, where no probe saw which of its lines do: in a log, or in what a cache had. The
    `lines` are then read from the texts, with `by_text`, and a line with several nodes computes one of them. For a kernel of
    Helion's `call` has the arguments of its call in Python, tensors without data.
    """

    name: str
    lines: tuple[tuple[int, str], ...]
    operations: Names
    template: Names
    nodes: Names | None = None
    by_text: bool | None = None
    call: str | None = None


@record
class Kernel(Record):
    """A kernel, and the line of the wrapper on which it begins.

    `comment` is the comment above its definition in the wrapper. If the program launches the kernel itself, `file` and
    `first_line` say where it is defined, and `launched_from` where it is launched. For a kernel that was traced by itself, `read`
    and `written` are the bytes of its launch, and `bytes_known` says how they are known, or why they are not.
    """

    name: str
    language: str
    wrapper_line: int
    comment: str
    definitions: tuple[KernelLines, ...] | None = None
    file: str | None = None
    first_line: int | None = None
    launched_from: tuple[Place | None, ...] | None = None
    read: int | None = None
    written: int | None = None
    bytes_known: str | None = None


@record
class KernelText(Kernel):
    """A kernel's source."""

    text: str


@record
class CallMemory(Record):
    """The measured allocations of a library call: its `line` in the output code, the peak and the results in bytes."""

    line: int
    peak: int
    kept: int


@record
class OutputCode(Record):
    """The wrapper that Inductor wrote: its file's name, "" for a temporary one; `cached` for what a cache had.

    `calls` has the library calls whose memory was measured.
    """

    file: str
    cached: bool | None = None
    calls: tuple[CallMemory, ...] | None = None


@record
class OutputCodeText(OutputCode):
    """The wrapper and the kernels it defines, as the file that is run."""

    text: str
