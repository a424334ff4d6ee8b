"""Say why a trace lacks a text or a kernel, and how to get it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.analysis.questions.tables import table
from explorer.analysis.questions.target import compiled_for
from explorer.errors import CompileError, InputError, NoKernelError, unknown_name
from explorer.model.trace_data import TraceData
from explorer.reference.gpus.properties import BELOW_METAL
from explorer.stages import stage_of, stages_of
from explorer.stages.inductor.cpp_wrapper import is_aot_inductor
from explorer.stages.inductor.output_code import LIBRARIES, calls_of, kernel_called
from explorer.stages.triton.origins import FORMS

#: What people call a stage who know other tools.
STAGE_HABITS = {
    "aot": "forward",
    "asm": "ptx",
    "aten": "forward",
    "code": "output_code",
    "cubin": "sass",
    "decomposed": "post_grad",
    "fx": "dynamo",
    "graph": "dynamo",
    "inductor": "output_code",
    "ir": "ir_post_fusion",
    "llvm": "llir",
    "metal": "kernel",
    "mlir": "ttir",
    "python": "source",
    "triton": "kernel",
    "wrapper": "output_code",
}
#: The forms that only NVIDIA's or only AMD's kernels have.
NVIDIA, AMD = ("ptx", "sass"), ("amdgcn",)
#: The languages of kernels, as people write them.
LANGUAGES = {
    "cpp": "C++",
    "cuda": "CUDA C++",
    "cutedsl": "CuTe DSL",
    "halide": "Halide",
    "hip": "HIP",
    "metal": "Metal",
    "nv_universal_gemm": "NVGEMM",
    "pallas": "Pallas",
    "triton": "Triton",
}
A_GPU = "name a GPU, even one you don't have: explorer.trace(f, x, target='h100')"


def explain_missing(trace: TraceData, stage: str) -> None:
    """Raise CompileError if a failure of the trace says why all kernels lack a stage."""
    why = next((f.message for f in trace.failures if (f.stage, f.step) == (stage, "triton")), None)
    if why is not None:
        raise CompileError(why)


def explain_place(trace: TraceData, stage: str, frame: str | None, graph: str | None) -> None:
    """Raise InputError, with the valid places, if the trace has the stage but not for this frame and graph."""
    there = dict.fromkeys(f"frame={a.frame!r}" + (f", graph={a.graph!r}" if a.graph else "") for a in trace.find(stage))
    if there and not trace.find(stage, frame, graph):
        asked = ", ".join(f"{k}={v!r}" for k, v in (("frame", frame), ("graph", graph)) if v is not None)
        raise InputError(f"this trace has no {stage!r} for {asked}; it has one for {' or '.join(there)}")


def no_text(trace: TraceData, stage: object, *, is_live: bool = False) -> InputError:
    """Build the error for a stage without a text: why, as far as the trace says, and what to do.

    `is_live` says that this process made the trace.
    """
    names = {s.name for s in stages_of(trace)} | {a.stage for a in trace.artifacts}
    if stage not in names:
        held = {a.stage for a in trace.artifacts} or names
        return unknown_name("stage of this trace", stage, held, STAGE_HABITS.get(str(stage), ""))
    why = why_no_text(trace, str(stage), is_live=is_live)
    return InputError(f"this trace has no {stage!r}: {why}")


def why_no_text(trace: TraceData, stage: str, *, is_live: bool = False) -> str:
    """Say why a trace has no text of a stage, and what to do."""
    target, backend = compiled_for(trace).name, str(trace.meta.get("backend") or "inductor")
    if not trace.artifacts:
        return "the trace is empty: nothing was recorded in it"
    if why := why_no_graph(trace):
        return why
    if log := str(trace.meta.get("log") or ""):
        return _not_in_log(trace, log, stage)
    needed = stage_of(trace, stage).backend
    if needed not in ("", backend):
        return f"backend {backend!r} is not {needed.title()}; trace with backend={needed!r}"
    languages = {kernel.language for kernel in trace.find("kernel")}
    if stage in (*FORMS, "assembly") and "metal" in languages:
        return f"its target is {target!r}; {BELOW_METAL}"
    if stage in FORMS and "triton" not in languages:
        return f"its target is {target!r}, and {_kernels(languages)}; {A_GPU}" if target else f"{_kernels(languages)}; {A_GPU}"
    if stage in NVIDIA and trace.find("amdgcn"):
        return f"{target!r} is an AMD GPU, and its machine code is 'amdgcn'; for {stage} name an NVIDIA GPU, such as 'h100'"
    if stage in AMD and trace.find("ptx"):
        return f"{target!r} is an NVIDIA GPU, and its machine code is 'sass'; for amdgcn name an AMD GPU, such as 'mi300x'"
    of = stage_of(trace, stage).on_demand_of
    if not is_live and of and (of in languages or trace.find(of)):
        return "only the process that made the trace can make it, and this trace was loaded; trace again"
    if stage == "assembly":
        machine = next((code for form, code in (("amdgcn", "amdgcn"), ("ptx", "sass")) if trace.find(form)), "")
        its = f", whose machine code is {machine!r}" if machine else ""
        return f"only C++ kernels have it, and {_kernels(languages)}{its}; trace with target='cpu'"
    if of in ("pallas", "halide"):
        return f"only {LANGUAGES[of]} kernels have it, and {_kernels(languages)}; trace with options={{'cpu_backend': {of!r}}}"
    if of == "cuda":
        cutlass = "options={'max_autotune': True, 'max_autotune_gemm_backends': 'CUTLASS'}"
        return f"only {LANGUAGES[of]} kernels have it, and {_kernels(languages)}; trace with {cutlass}"
    message = next((failure.message for failure in trace.failures if failure.stage == stage), "")
    if not message and any(stage in row["not_seen"] for row in table(trace, "cache")):
        return "the graph came from a cache, which does not keep it; record(fresh=True) compiles the graph again"
    message = message or _why_without_dynamo(trace, stage)
    return message or stage_of(trace, stage).why_absent or "the compile did not run this stage, or stages= left it out"


#: What Dynamo makes of a function, and what AOTAutograd makes for a backward.
OF_DYNAMO = ("bytecode", "dynamo", "dynamo_bytecode", "decompiled", "guards")
OF_BACKWARD = ("joint", "backward")


def _why_without_dynamo(trace: TraceData, stage: str) -> str:
    """Say why a graph lacks a stage that the program gave to Inductor itself; "" for another stage or trace."""
    wrappers = trace.find("output_code")
    if not wrappers or trace.find("dynamo"):
        return ""
    if stage in OF_DYNAMO:
        return "the program gave Inductor a finished graph, as torch.export or make_fx makes it, so Dynamo compiled no function"
    if stage in OF_BACKWARD and any(is_aot_inductor(wrapper.text) for wrapper in wrappers):
        return "AOTInductor compiles a graph without a backward: the package computes the outputs only"
    if stage in OF_BACKWARD:
        return (
            "no input of the graph that the program gave to Inductor requires grad; gradients that the program takes "
            "itself are in 'forward'"
        )
    if stage == "source":
        return (
            "no node of the graph that the program gave to Inductor names a line; make_fx(f, record_stack_traces=True) keeps "
            "the lines of each function that is called forward"
        )
    return ""


#: What writes a stage that a log lacks.
IN_DEBUG_FOLDER = ("ir_pre_fusion", "ir_post_fusion")


def _not_in_log(trace: TraceData, log: str, stage: str) -> str:
    """Say why the trace of a log lacks a stage, and what has it."""
    has_triton = any(kernel.language == "triton" for kernel in trace.find("kernel"))
    if stage in FORMS and has_triton and log != "tritonparse":
        return f"a {log} log does not have it; explorer.load(path, target='h100') compiles the log's kernels again, for any GPU"
    lost = next((failure.message for failure in trace.failures if failure.stage == "log" and failure.step == "damaged"), "")
    if lost:
        return f"the log does not have it, and not all of the log could be read: {lost}"
    also = "; TORCH_COMPILE_DEBUG=1 writes it" if stage in IN_DEBUG_FOLDER and log != "TORCH_COMPILE_DEBUG" else ""
    return f"this {log} log does not have it{also}; `explorer trace -o out.json.gz SCRIPT` records every stage of a job that runs"


def no_form(name: str, language: str, stage: object, held: Iterable[str]) -> InputError:
    """Build the error for a form that a kernel lacks."""
    written = LANGUAGES.get(language, language)
    if language == "metal" and stage in (*FORMS, "assembly"):
        return InputError(f"kernel {name} is {written} and has no {stage!r}: {BELOW_METAL}")
    if language == "cuda" and stage in NVIDIA:
        return InputError(
            f"kernel {name} is {written}: its {str(stage).upper()} is 'cuda_{stage}', which nvcc makes when asked for"
        )
    if language in ("cutedsl", "nv_universal_gemm") and stage in FORMS:
        return InputError(
            f"kernel {name} is {written} and has no {stage!r}: its machine code is made at the first launch, on the GPU"
        )
    if language == "hip" and stage in FORMS:
        return InputError(
            f"kernel {name} is {written} and has no {stage!r}: hipcc compiles it where ROCm is, at the first launch"
        )
    if language != "triton" and stage in FORMS:
        return InputError(f"kernel {name} is {written} and has no {stage!r}: {A_GPU}")
    if language == "triton" and stage == "assembly":
        return InputError(f"kernel {name} is {written}: its machine code is 'sass' or 'amdgcn', and 'assembly' is a C++ kernel's")
    return unknown_name("stage of this kernel", stage, held, STAGE_HABITS.get(str(stage), ""))


def why_no_graph(trace: TraceData) -> str:
    """Say why nothing was compiled; "" if something was."""
    if any(a.stage in ("dynamo", "kernel", "output_code", "forward", "post_grad") for a in trace.artifacts):
        return ""
    message = next((f.message for f in trace.failures if f.fatal or f.step == "compile"), "")
    return message or "torch.compile compiled nothing while the trace was recorded"


def _kernels(languages: set[str]) -> str:
    written = " and ".join(sorted(LANGUAGES.get(language, language) for language in languages))
    return f"its kernels are {written}" if languages else "it has no kernel"


def no_kernel(trace: TraceData | None, index: object) -> NoKernelError:
    """Build the error for a kernel that a trace lacks."""
    kernels = trace.find("kernel") if trace is not None else ()
    if trace is None:
        return NoKernelError(f"there is no kernel {index!r} here")
    if not kernels:
        return NoKernelError(f"this trace has no kernel: {why_no_kernel(trace)}")
    if alike := [(n, kernel.kernel) for n, kernel in enumerate(kernels) if isinstance(index, str) and index in kernel.kernel]:
        named = ", ".join(f"t.kernels[{n}] is {name}" for n, name in alike)
        return NoKernelError(f"no one kernel has the name {index!r}: {named}")
    names = ", ".join(kernel.kernel for kernel in kernels)
    return NoKernelError(f"there is no kernel {index!r}: kernels are numbered from 0 to {len(kernels) - 1} ({names})")


def why_no_kernel(trace: TraceData) -> str:
    """Say why a trace has no kernel at all."""
    if why := why_no_graph(trace):
        return why
    backend = str(trace.meta.get("backend") or "inductor")
    if backend != "inductor":
        return f"backend {backend!r} writes none; trace with backend='inductor'"
    fatal = next((f.message for f in trace.failures if f.fatal), "")
    launched = (name for wrapper in trace.find("output_code") for _, name in calls_of(wrapper) if not name.startswith(LIBRARIES))
    if name := next((kernel_called(name) for name in launched if not fatal), ""):
        return f"the output code launches {name}, and explorer does not find where it is defined; see t.text('output_code')"
    return fatal or "the code that Inductor wrote calls libraries only, or only makes views; see t.text('output_code')"
