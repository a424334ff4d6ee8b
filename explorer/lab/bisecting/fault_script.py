"""Write a launch that is off as a script of its own: the generated code, its numbers, and the eager nodes beside it."""

from __future__ import annotations

import ast
import pprint
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from explorer.capture.splice.edit import Edit
from explorer.errors import NoVerbError
from explorer.lab.bisecting.case import Case, Place
from explorer.lab.bisecting.shrink import Shrunk
from explorer.lab.scripts import parts
from explorer.lab.scripts.inputs import beside_script, literal, save
from explorer.lab.scripts.kernel_script import HALIDE, compiler, definition_of
from explorer.lab.scripts.model_script import quoted
from explorer.model.syntax import parsed

#: Up to so many numbers that are not zero stand in the script itself.
MAX_NUMBERS = 64
#: Where the names are from that a wrapper calls a library by.
_LIBRARY = {
    "extern_kernels": "from torch._inductor.select_algorithm import extern_kernels",
    "aten": "aten = torch.ops.aten",
    "torch": "",
}


@dataclass(frozen=True)
class Definition:
    """How a kernel of a script is defined: the wrapper's statement, its language, and the config of a Triton kernel."""

    name: str
    statement: str
    language: str
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """All data for a script: `about` has the lines that describe the fault, `device` is torch's name of the device."""

    case: Case
    shrunk: Shrunk
    definitions: Sequence[Definition]
    about: Sequence[str]
    device: str
    gpu: Any
    options: Mapping[str, Any]


def definition(text: str, name: str, language: str, config: Mapping[str, Any], standing: Edit | None) -> Definition:
    """Return the definition of a kernel from its wrapper's text, or of the edit `standing` that is in its place.

    Raises NoVerbError if the wrapper has no definition, and for an edit of a form below the source.
    """
    statement = definition_of(text, name)
    if statement is None or (standing is not None and standing.form != "source"):
        why = "its wrapper does not define it in Python" if statement is None else f"its {standing.form} was edited"  # type: ignore[union-attr]
        raise NoVerbError(
            f"{name} cannot be written as a script: {why}, which a script cannot define; "
            "k.edits.reset() puts the original back, after which t.bisect() judges that"
        )
    if standing is not None:
        statement = _with_source(statement, standing.text)
        config = standing.config or config
    return Definition(name, statement, language, config)


def _with_source(statement: str, source: str) -> str:
    """The statement that defines a kernel with another source in it."""
    call = parsed(statement).body[0].value  # type: ignore[attr-defined]
    texts = [a for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    old = ast.get_source_segment(statement, texts[-1])
    assert old is not None
    return statement.replace(old, quoted(f"\n{source.strip(chr(10))}\n"))


def write(fault: Fault, path: Path) -> Path | None:
    """Write the script, and its numbers beside it where they are too many for its text; the path of these."""
    inline = _inline(fault)
    beside = None if inline else beside_script(path)
    path.write_text(script(fault, inline, beside.name if beside else ""), encoding="utf-8")
    if beside:
        save(beside, {"args": list(fault.shrunk.values)})
    return beside


def script(fault: Fault, inline: str, file: str) -> str:
    """The text of a script; `inline` makes its arguments, or `file` has them."""
    needs_triton = any(each.language == "triton" for each in fault.definitions)
    sections = [
        parts.docstring([*fault.about, "", *_numbers(fault, file)]) + parts.IMPORTS,
        parts.requirements(fault.device, fault.gpu) if needs_triton or fault.device != "cpu" else "",
        _kernels(fault),
        _launch(fault),
        parts.harness("inputs", "check", "a launch that is off"),
        _eager(fault),
        _main(fault, inline, file),
    ]
    return "\n".join(section.rstrip("\n") + "\n" for section in sections if section)


def _numbers(fault: Fault, file: str) -> list[str]:
    """What the script prints, and where its numbers are."""
    shrunk, case = fault.shrunk, fault.case
    lines = [f"The first element that is off is {list(shrunk.at)} of {case.outputs[shrunk.output].name}."]
    lines += [f"The numbers are in {file}." if file else "The numbers are in the script itself."]
    return [*lines, "The exit status is 1 where the fault is there, 0 where it is gone, and 2 where the script cannot run."]


def _kernels(fault: Fault) -> str:
    """The definitions of the kernels, and what compiles them."""
    roots = {site.name.partition(".")[0] for site in fault.case.part.steps if site.is_library}
    lines = [line for root in sorted(roots) if (line := _LIBRARY.get(root, ""))]
    if not fault.definitions:
        return "\n".join([*lines, ""])
    triton = any(each.language == "triton" for each in fault.definitions)
    if triton:
        lines += [compiler(fault.options, "CONFIG: Any = {}", "The config of the kernel that is compiled next."), ""]
    else:
        lines += [HALIDE] if any(each.language == "halide" for each in fault.definitions) else []
        lines += [compiler(fault.options), ""]
    for each in fault.definitions:
        lines += [*([f"CONFIG = {dict(each.config)!r}"] if each.language == "triton" else []), each.statement, ""]
    return "\n".join([*lines, "async_compile.wait(globals())", "compiling.__exit__(None, None, None)", ""])


def _launch(fault: Fault) -> str:
    """The function that launches."""
    lines = ["", "def launch(args: Any) -> None:", '    """Launch as the wrapper does."""']
    if any(each.language == "triton" for each in fault.definitions):
        lines += [f"    stream = torch._C._{fault.device}_getCurrentRawStream(torch.{fault.device}.current_device())"]
    languages = {each.name: each.language for each in fault.definitions}
    for site, slots in zip(fault.case.part.steps, fault.case.slots, strict=True):
        given = [f"args[{n}]" for n in slots.arguments] + [f"{name}=args[{n}]" for name, n in slots.keywords.items()]
        if languages.get(site.name) == "triton":
            lines += [f"    {site.name}.run({', '.join(given)}, stream=stream)"]
        else:
            kept = f"args[{slots.result}] = " if slots.result is not None else ""
            run = ".run" if languages.get(site.name) == "pallas" else ""
            lines += [f"    {kept}{site.name}{run}({', '.join(given)})"]
    return "\n".join([*lines, "", ""])


def _eager(fault: Fault) -> str:
    """The eager nodes, and where their inputs are."""
    inputs = [_expression(place, "after" if place.after else "before") for place in fault.case.inputs]
    inputs += [literal(size) for size in fault.case.sizes]
    lines = ["# ---- eager: the nodes of the post-grad graph that lead to what is off " + "-" * 48, "", ""]
    lines += [fault.case.part.code.rstrip("\n"), "", "", "def inputs_of(before: Any, after: Any) -> list[Any]:"]
    lines += ['    """The inputs of the eager nodes, of the arguments before and after the launch."""']
    lines += ["    return [", *(f"        {text}," for text in inputs), "    ]", ""]
    return "\n".join(lines)


def _expression(place: Place, values: str) -> str:
    """The expression for a node's tensor."""
    value = f"{values}[{place.value}]"
    if place.layout is None:
        return value
    shape, stride, base = place.layout
    offset = f"{value}.storage_offset()" + (f" - {base}" if base else "")
    return f"{value}.as_strided({shape}, {stride}, {offset})"


def _main(fault: Fault, inline: str, file: str) -> str:
    lines = ["", "def main() -> int:", '    """Launch, and compare."""']
    if inline:
        lines += [inline]
    else:
        lines += [f"    if not (HERE / {file!r}).exists():"]
        lines += [
            f'        print("this script needs its inputs: the file {file} beside it", file=sys.stderr)',
            "        return 2",
        ]
        lines += [f'    saved = torch.load(HERE / {file!r}, weights_only=True, map_location="cpu")["args"]']
        lines += [f"    args = copies(saved, [{fault.device!r}] * len(saved))"]
    lines += [f'    print(f"{fault.case.part.name}: torch {{torch.__version__}}, {parts.said_device(fault.device)}")']
    lines += ["    outputs = ["]
    lines += [f"        ({place.name!r}, lambda args: {_expression(place, 'args')})," for place in fault.case.outputs]
    lines += ["    ]", "    return run_fault(launch, args, outputs, inputs_of, eager)"]
    return "\n".join([*lines, "", "", 'if __name__ == "__main__":', "    sys.exit(main())", ""])


def _inline(fault: Fault) -> str:
    """The statements that make a list `args`, where few numbers are not zero; "" where they are many."""
    import torch

    lines, arguments = ["storages = ["], []
    storages: dict[int, tuple[int, Any]] = {}
    left = MAX_NUMBERS
    for value in fault.shrunk.values:
        if not isinstance(value, torch.Tensor):
            arguments.append(literal(value))
            continue
        storage = value.untyped_storage()
        key = storage.data_ptr()
        if key not in storages:
            elements = _elements(value)
            left -= len(elements)
            if left < 0 or value.dtype.is_complex:
                return ""
            storages[key] = len(storages), value.dtype
            content = pprint.pformat(elements, width=120, compact=True).replace("\n", "\n    ")
            lines.append(f"    stored({storage.nbytes()}, {value.dtype}, {fault.device!r}, {content}),")
        number, dtype = storages[key]
        if dtype != value.dtype:
            return ""
        layout = f"{value.dtype}, {tuple(value.shape)}, {value.stride()}, {value.storage_offset()}"
        arguments.append(f"view(storages[{number}], {layout})")
    lines += ["]", "args = [", *(f"    {argument}," for argument in arguments), "]"]
    return "\n".join("    " + line for line in lines)


def _elements(value: Any) -> dict[int, Any]:
    """The numbers of a tensor's storage that are not zero, by their place."""
    import torch

    storage = value.untyped_storage()
    count = storage.nbytes() // value.dtype.itemsize
    whole = torch.empty(0, dtype=value.dtype, device=value.device).set_(storage, 0, (count,), (1,))
    places = whole.nonzero().flatten()[: MAX_NUMBERS + 1].tolist()
    return {place: whole[place].item() for place in places}
