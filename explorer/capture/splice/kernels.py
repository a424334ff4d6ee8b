"""Compile another text of a kernel to what can stand in its place, with the options that the original was compiled with."""

from __future__ import annotations

import ast
import contextlib
import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from explorer.capture.absent.generated import Code, Kernel, Wrappers
from explorer.capture.ladder.ladder import autotuner, choose
from explorer.capture.observe.launched import described
from explorer.capture.observe.patch import replaced
from explorer.capture.splice.definitions import definition_with, evaluated, name_in_source
from explorer.capture.splice.wrappers import LoadedWrapper, Wrapper
from explorer.errors import InputError
from explorer.model.syntax import parsed_expression
from explorer.model.values import Plain
from explorer.reference.gpus.figures import Target

#: The forms of a Triton kernel that can be given in place of its source: triton compiles on from there.
FORMS = ("ttir", "ttgir", "llir", "ptx", "amdgcn")


@dataclass(frozen=True)
class KernelText:
    """A kernel's text, and how to compile it. It can be sent to another process unchanged.

    `definition` is the expression that defines the kernel in its wrapper, with this source. `name` is the function's name in
    the source. `config` is one of Inductor's candidates; None takes those that the source states. A `strict` config was asked
    for by the user and must fit the source. With `form`, the text `form_text` replaces that form of the kernel. `target` is an
    absent GPU, for which the kernel is interpreted.
    """

    source: str
    definition: str
    name: str
    language: str
    options: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Plain] | None = None
    strict: bool = False
    form: str = ""
    form_text: str = ""
    target: Target | None = None


def kernel_text(wrapper: Wrapper, name: str, source: str, language: str) -> KernelText:
    """Another source of the kernel `name` of a wrapper, to be compiled with the original's options.

    On an attached GPU it gets the config that the original has, if it has settled on one. InputError where the wrapper does not
    define the kernel in Python.
    """
    definition = definition_with(wrapper.text, name, source)
    of_source = name_in_source(definition, name)
    text = KernelText(source, ast.unparse(definition), of_source, language)
    if isinstance(wrapper, Code):
        return replace(text, target=wrapper.target)
    assert isinstance(wrapper, LoadedWrapper)
    config = config_of(vars(wrapper.module).get(name)) if language == "triton" else None
    return replace(text, options=dict(wrapper.options), config=config)


def config_of(tuner: Any) -> Mapping[str, Plain] | None:
    """The config that a kernel of an attached GPU has settled on; None where it has not."""
    launchers: Sequence[Any] = getattr(tuner, "launchers", ())
    return dict(described(launchers[0].config)) if len(launchers) == 1 else None


def compiled(text: KernelText, wrappers: Wrappers | None = None) -> Any:
    """Compile a text to an object that can replace the original in its wrapper. The compiler's errors are raised.

    For an absent GPU, `wrappers` interprets the text.
    """
    if text.target is not None:
        return interpreted_kernel(text, wrappers)
    if text.language == "triton":
        return _triton_kernel(text)
    return evaluated(parsed_expression(text.definition).body, {}, text.options)


def interpreted_kernel(text: KernelText, wrappers: Wrappers | None) -> Kernel:
    """The kernel of a GPU you don't have, with the config asked for."""
    assert text.target is not None
    return Kernel.of(text.name, text.source, text.target, wrappers, text.config)


def _triton_kernel(text: KernelText) -> Any:
    """A Triton kernel for the attached GPU, of a module of its own: torch keeps one for all that have the same source."""
    from torch._inductor import config
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.runtime.compile_tasks import _reload_python_module

    module = _reload_python_module(*PyCodeCache.write(text.source), set_sys_modules=False)
    tuner = autotuner(vars(module), text.name)
    if text.config is not None:
        tuner.configs = [_config(tuner.configs, text.config, text.strict)]
    with ExitStack() as stack:
        stack.enter_context(config.patch({**text.options, **({"use_static_cuda_launcher": False} if text.form else {})}))
        if text.form:
            stack.enter_context(in_place_of_form(text.form, text.form_text))
        tuner.precompile()
    return tuner


def _config(configs: list[Any], wanted: Mapping[str, Plain], strict: bool) -> Any:
    """The config with these values. Those of the original may not fit a source with other constants: then it is the first."""
    try:
        return choose(configs, wanted)
    except InputError:
        if strict:
            raise
        return configs[0]


@contextmanager
def in_place_of_form(form: str, text: str) -> Iterator[None]:
    """Let triton go on from `text` wherever it has made that form of a kernel inside the block, and read and write no cache.

    This uses triton's own override (TRITON_KERNEL_OVERRIDE), with this text as the only file. Triton's output is discarded.
    """
    from triton import knobs
    from triton.compiler import compiler

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path = folder / f"edited.{form}"
        path.write_text(text, encoding="utf-8")

        class Override:
            """Where triton looks for the texts that override its own."""

            def get_file(self, name: str) -> str | None:
                return str(path) if name.endswith(f".{form}") else None

        stack.enter_context(knobs.compilation.scope())
        stack.enter_context(knobs.cache.scope())
        knobs.compilation.override = True
        knobs.cache.dir = str(folder / "cache")
        stack.enter_context(replaced(compiler, "get_override_manager", lambda _: lambda key: Override()))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        yield
