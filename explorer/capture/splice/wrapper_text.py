"""Compile another text of a wrapper to a module that can be called in the original's place, kernels that it shares included."""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

from explorer.capture.absent.generated import Code, Wrappers
from explorer.capture.splice.calls import CALL, constants, replace_call
from explorer.capture.splice.definitions import Definition, definitions
from explorer.capture.splice.kernels import KernelText, compiled
from explorer.capture.splice.messages import syntax_error
from explorer.capture.splice.wrappers import LoadedWrapper, Wrapper
from explorer.model.syntax import parsed, parsed_expression
from explorer.reference.gpus.figures import Target

#: The name under which an edited module finds the kernels that were compiled before it is executed.
_KERNELS = "_compiled_kernels"


@dataclass(frozen=True)
class WrapperText:
    """A text of a wrapper, and how it is compiled: it goes to another process as it is.

    `constants` are the tensors that the wrapper has as names of its module. `code` is the wrapper of a GPU you don't have, whose
    text is interpreted.
    """

    source: str
    file: str
    options: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict, repr=False)
    code: Code | None = field(default=None, repr=False)
    form: ClassVar[str] = ""

    @property
    def target(self) -> Target | None:
        """The GPU you don't have that it is for; None for an attached device."""
        return self.code.target if self.code is not None else None


def wrapper_text(wrapper: Wrapper, source: str) -> WrapperText:
    """Another text of a wrapper, to be compiled with the original's options."""
    if isinstance(wrapper, Code):
        return WrapperText(source, wrapper.file, code=replace(wrapper, text=source, replacements={}))
    assert isinstance(wrapper, LoadedWrapper)
    return WrapperText(source, wrapper.file, dict(wrapper.options), constants(wrapper))


def unreadable(text: str) -> tuple[int, str] | None:
    """The line and the message of what keeps a text from being a wrapper's; None where it is one, as far as it can be read."""
    if (error := syntax_error(text)) is not None:
        return error
    tree = parsed(text)
    targets = [ast.unparse(t) for s in tree.body if isinstance(s, ast.Assign) for t in s.targets]
    if CALL in targets or any(isinstance(s, ast.FunctionDef) and s.name == CALL for s in tree.body):
        return None
    return (
        0,
        f"the text defines no {CALL!r} at its top, which the compiled function calls: change the original text and give that",
    )


def changed_kernels(text: str, original: str) -> list[Definition]:
    """List the kernels that a text defines differently from the original, or that the original does not have."""
    before = definitions(original)
    return [new for name, new in definitions(text).items() if name not in before or not new.same_as(before[name])]


def loaded(
    text: WrapperText, like: Wrapper | None = None, begin: Callable[[str, int], object] = lambda source, line: None
) -> Wrapper:
    """Compile a text to a wrapper; the errors of the compilers, and of Python for what the module does when it is executed.

    A kernel that `like` defines in the same way is taken from there. `begin` is told the source of each kernel that is compiled,
    with its line in the text, and then the text itself.
    """
    if text.code is not None:
        begin(text.source, 1)
        return text.code
    kernels = dict(_shared(text.source, like))
    for name, definition in definitions(text.source).items():
        if name not in kernels and definition.language:
            begin(definition.source, definition.first_line)
            kernels[name] = _compiled(definition, text.options)
    begin(text.source, 1)
    return LoadedWrapper(_executed(text, kernels), text.options, text.source)


def _shared(text: str, like: Wrapper | None) -> Mapping[str, Any]:
    """The kernels of another wrapper that a text defines in the same way."""
    if not isinstance(like, LoadedWrapper):
        return {}
    before, space = definitions(like.text), vars(like.module)
    same = [name for name, new in definitions(text).items() if name in before and new.same_as(before[name])]
    return {name: space[name] for name in same if name in space}


def _compiled(definition: Definition, options: Mapping[str, Any]) -> Any:
    """Compile the kernel that a definition defines."""
    text = KernelText(definition.source, ast.unparse(definition.call), definition.inner_name, definition.language, dict(options))
    return compiled(text)


def _executed(text: WrapperText, kernels: Mapping[str, Any]) -> Any:
    """Make a text's module, with the compiled kernels in place of their definitions. Line numbers match the text."""
    from torch._inductor import config

    tree = copy.deepcopy(parsed(text.source))  # trees are shared
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and (name := ast.unparse(statement.targets[0])) in kernels:
            taken = parsed_expression(f"{_KERNELS}[{name!r}]").body
            statement.value = ast.copy_location(taken, statement.value)
    module = types.ModuleType(text.file.removesuffix(".py"))
    module.__file__ = text.file
    space = vars(module)
    space |= {**text.constants, _KERNELS: kernels}
    with config.patch(dict(text.options)):
        exec(compile(ast.fix_missing_locations(tree), text.file, "exec"), space)
    return module


def called(wrapper: Wrapper, wrappers: Wrappers | None) -> Callable[..., Any]:
    """Return a function that calls a wrapper with its arguments. A wrapper for an absent GPU is interpreted."""
    if isinstance(wrapper, Code):
        assert wrappers is not None
        return lambda *args: wrappers.call(wrapper, list(args))
    return lambda *args: _call(wrapper, list(args))


def put_in_place(original: Wrapper, edited: Wrapper) -> Callable[[], None]:
    """Let the call of another wrapper answer in the place of the original's, and return what puts the original back."""
    if isinstance(edited, Code):
        return replace_call(original, lambda _: edited.in_place_of_another)
    return replace_call(original, lambda _: partial(_call, edited))


def _call(wrapper: Wrapper, args: list[Any]) -> Any:
    """Call a wrapper by its name, in whose place something may stand."""
    assert isinstance(wrapper, LoadedWrapper)
    return vars(wrapper.module)[CALL](args)


__all__ = ["WrapperText", "called", "changed_kernels", "loaded", "put_in_place", "unreadable", "wrapper_text"]
