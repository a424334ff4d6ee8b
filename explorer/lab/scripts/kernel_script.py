"""Write one generated kernel as a script of its own: its definition, its arguments, a check and timing."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from explorer.analysis.questions.kernels import first_form
from explorer.capture.splice.definitions import definitions
from explorer.capture.splice.launches import RecordedLaunch
from explorer.capture.splice.wrappers import Wrapper
from explorer.errors import InputError, NoVerbError
from explorer.lab.scripts import parts
from explorer.lab.scripts.inputs import beside_script, keeps, random_inputs, save
from explorer.lab.scripts.reference import Reference, reference
from explorer.model.records import typed
from explorer.model.shared import OutputCode
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact
from explorer.stages.inductor.signature import parameters
from explorer.stages.triton.origins import KernelForm

#: Compiles a Triton kernel as Inductor's wrapper does, but with one config.
ONE_CONFIG = '''

class OneConfig(AsyncCompile):
    """Inductor's compiler of kernels, which compiles a Triton kernel with CONFIG alone and times no other."""

    def triton(self, kernel_name: str, source_code: str, device_str: str = "cuda") -> Any:
        _set_triton_ptxas_path()
        kernel = getattr(PyCodeCache.load(source_code), kernel_name)
        config = copy.deepcopy(kernel.configs[0])
        for name, value in CONFIG.items():
            if name in ("num_warps", "num_stages", "num_ctas", "maxnreg"):
                setattr(config, name, value)
            else:
                config.kwargs[name] = value
        kernel.configs = [config]
        kernel.inductor_meta.update(dynamic_scale_rblock=False, coordinate_descent_tuning=False)
        kernel.precompile()
        return kernel
'''

#: What the definition of a Halide kernel names.
HALIDE = "from torch._inductor.runtime.hints import HalideInputSpec, HalideMeta"


@dataclass(frozen=True)
class Made:
    """A written script: its path, and the path of its recorded inputs; None if its inputs are random."""

    script: Path
    inputs: Path | None

    def __str__(self) -> str:
        if self.inputs is None:
            return f"{self.script}: its inputs are random, of the same layout"
        return f"{self.script}: its inputs are the recorded ones, in {self.inputs.name} beside it"


@dataclass(frozen=True)
class Reproducer:
    """One launch of a kernel, all that its script is made of."""

    kernel: Artifact
    meta: Mapping[str, Any]
    gpu: Any
    definition: str
    launch: RecordedLaunch
    number: int
    form: KernelForm | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    reference: Reference = field(default_factory=Reference)

    @property
    def device(self) -> str:
        """The device's name for torch, without a number."""
        on_cpu = self.kernel.language == "cpp" or self.meta.get("target") == "cpu"
        return "cpu" if on_cpu else getattr(self.gpu, "device", None) or "cuda"

    @property
    def names(self) -> tuple[str, ...]:
        """The kernel's names for the arguments."""
        named = tuple(parameter.name for parameter in parameters(self.kernel.text, self.kernel.language))
        given = self.launch.before
        return (*named, *(f"argument {n}" for n in range(len(named), len(given))))[: len(given)]

    @property
    def written(self) -> tuple[int, ...]:
        """The positions that the launch wrote: the changed arguments, and parameters that their names mark as written.

        Reused memory may already have held, to the bit, the values that the launch writes.
        """
        named = enumerate(parameters(self.kernel.text, self.kernel.language))
        writes = {number for number, parameter in named if parameter.writes and parameter.is_tensor}
        return tuple(sorted({*self.launch.changed, *writes}))

    @property
    def scratch(self) -> tuple[int, ...]:
        """The positions of memory that the kernel has for itself."""
        return tuple(n for n, name in enumerate(self.names) if name.startswith(("ws_ptr", "semaphores_ptr")))


def wrapper_of(trace: TraceData, kernel: Artifact, wrappers: Sequence[Wrapper]) -> Wrapper:
    """The wrapper that launches a kernel; NoVerbError where no wrapper of the trace does."""
    codes = trace.find("output_code", kernel.frame, kernel.graph)
    files = {typed(OutputCode, code.data).file for code in codes}
    for wrapper in wrappers:
        if wrapper.file in files and definition_of(wrapper.text, kernel.kernel) is not None:
            return wrapper
    raise NoVerbError(
        f"{kernel.kernel} is launched by no wrapper in Python, so explorer cannot record its arguments: "
        "the program launches it itself, from its own file, or the wrapper is in C++: trace without cpp_wrapper"
    )


def definition_of(text: str, name: str) -> str | None:
    """Return the source of the statement with which a wrapper defines a kernel; None if there is none."""
    definition = definitions(text).get(name)
    return ast.get_source_segment(text, definition.statement) if definition is not None else None


def write(reproducer: Reproducer, path: Path, inputs: str) -> Made:
    """Write the script, and its inputs where they are kept."""
    launch = reproducer.launch
    if not any(hasattr(value, "untyped_storage") for value in launch.before):
        raise InputError(f"{reproducer.kernel.kernel} takes no tensor, so there is nothing to check")
    real = keeps(inputs, launch.before)
    beside = beside_script(path)
    text = script(reproducer, beside.name if real else None)
    path.write_text(text, encoding="utf-8")
    if real:
        after = {n: launch.after[n] for n in reproducer.written} if launch.after else {}
        save(beside, {"args": list(launch.before), "after": after})
    return Made(path, beside if real else None)


def script(of: Reproducer, file: str | None) -> str:
    """The text of a script; `file` has its inputs, and they are random without one."""
    arguments = f"those of launch {of.number + 1}, in {file}" if file else "random, laid out as those of a launch"
    about = [
        f"{of.kernel.kernel}: a kernel that Inductor generated for {of.meta.get('name', 'a program')}.",
        "",
        "It runs the kernel, checks what it writes, and times it. The exit status is 1 where a result is wrong,",
        "and 2 where the script cannot run.",
        f"Its arguments are {arguments}.",
        f"Compiled by {parts.made_with(of.meta)}. Made by explorer's Kernel.to_script.",
    ]
    sections = [
        parts.docstring(about) + parts.IMPORTS,
        parts.requirements(of.device, of.gpu),
        _compiler(of),
        of.definition + "\n",
        _waits(of),
        parts.harness(),
        _reference(of),
        _main(of, file),
    ]
    return "\n".join(section.rstrip("\n") + "\n" for section in sections if section)


def _compiler(of: Reproducer) -> str:
    """What compiles the definition, with the config of the launch."""
    if of.kernel.language == "halide":
        return f"{HALIDE}\n{compiler(of.options)}"
    if of.kernel.language != "triton":
        return compiler(of.options)
    about = f"The config of the launch, of the {len(of.form.candidates)} that Inductor would take." if of.form else ""
    return compiler(of.options, f"CONFIG = {dict(of.form.config) if of.form else {}!r}", about)


def compiler(options: Mapping[str, Any], config: str = "", about: str = "") -> str:
    """What compiles definitions: Inductor itself, with these options; for Triton `config` is the statement that sets CONFIG."""
    lines = ["from torch._inductor import config", "from torch._inductor.async_compile import AsyncCompile"]
    if config:
        lines = ["import copy", "", *lines, "from torch._inductor.codecache import PyCodeCache"]
        lines += ["from torch._inductor.runtime.compile_tasks import _set_triton_ptxas_path", ""]
        lines += [f"#: {about}" if about else "", config, ONE_CONFIG.rstrip("\n"), "", ""]
    lines += ["#: The options of Inductor that were given.", f"OPTIONS = {dict(options)!r}", ""]
    lines += [
        f"torch.set_float32_matmul_precision({precision()!r})",
        "compiling = config.patch(OPTIONS)",
        "compiling.__enter__()",
    ]
    return "\n".join([*lines, f"async_compile = {'OneConfig' if config else 'AsyncCompile'}()", ""])


def precision() -> str:
    """How exact products of float32 are in this process."""
    import torch

    return str(torch.get_float32_matmul_precision())


def _waits(of: Reproducer) -> str:
    """Wait for the kernel, and define how it is launched."""
    name = of.kernel.kernel
    lines = ["async_compile.wait(globals())", "compiling.__exit__(None, None, None)", "", "", "def launch(*args: Any) -> None:"]
    if of.kernel.language in ("cpp", "halide"):
        lines += ['    """Launch the kernel as the wrapper does."""', f"    {name}(*args)"]
    elif of.device == "cpu":
        lines += ['    """Launch the kernel as the wrapper does."""', f"    {name}.run(*args)"]
    else:
        lines += ['    """Launch the kernel as the wrapper does; Inductor computes the grid of its sizes and its config."""']
        lines += [f"    stream = torch._C._{of.device}_getCurrentRawStream(torch.{of.device}.current_device())"]
        lines += [f"    {name}.run(*args, stream=stream)"]
    return "\n".join([*lines, "", ""])


def _reference(of: Reproducer) -> str:
    """What eager computes in the kernel's place."""
    return of.reference.code


def _main(of: Reproducer, file: str | None) -> str:
    devices = [of.device if hasattr(value, "untyped_storage") else "" for value in of.launch.before]
    lines = ["", "def main() -> int:", '    """Run, check and time the kernel."""']
    if file is not None:
        lines += [f"    if not (HERE / {file!r}).exists():"]
        lines += [
            f'        print("this script needs its inputs: the file {file} beside it", file=sys.stderr)',
            "        return 2",
        ]
        lines += [f'    saved = torch.load(HERE / {file!r}, weights_only=True, map_location="cpu")']
        lines += [f'    args, recorded = copies(saved["args"], [{of.device!r}] * {len(devices)}), saved["after"]']
    else:
        lines += [random_inputs(of.launch.before, devices), "    recorded = None"]
    lines += [f'    print(f"{of.kernel.kernel}: torch {{torch.__version__}}, {parts.said_device(of.device)}")']
    if of.form is not None:
        lines += ['    print("config:", ", ".join(f"{name}={value}" for name, value in CONFIG.items()))']
    if of.reference.why_not:
        lines += [f"    print({f'not compared with eager: {of.reference.why_not}'!r})"]
    eager = "expected" if of.reference.code else "None"
    lines += [f"    names = {list(of.names)!r}"]
    lines += [f"    return run_kernel(launch, names, args, {of.device!r}, recorded, {eager}, {of.scratch!r})"]
    return "\n".join([*lines, "", "", 'if __name__ == "__main__":', "    sys.exit(main())", ""])


def reproducer(
    trace: TraceData, kernel: Artifact, wrapper: Wrapper, launches: Sequence[RecordedLaunch], **more: Any
) -> Reproducer:
    """Make the reproducer of the last of the recorded launches of a kernel; NoVerbError where it was not launched."""
    if not launches:
        raise NoVerbError(
            f"{kernel.kernel} was not launched when the program ran again: CUDA graphs replayed it, or it was not needed; "
            "trace without CUDA graphs, such as without mode='reduce-overhead'"
        )
    definition = definition_of(wrapper.text, kernel.kernel)
    assert definition is not None
    return Reproducer(
        kernel,
        trace.meta,
        definition=definition,
        launch=launches[-1],
        number=len(launches) - 1,
        form=first_form(trace, kernel),
        reference=reference(trace, kernel, len(launches) - 1, launches[-1].before),
        **more,
    )
