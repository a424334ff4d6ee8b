"""Keep explorer's own functions out of what torch looks at: frames that it compiles, and the stack that it checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, ModuleType
from typing import Any

from explorer.capture.observe.patch import replaced
from explorer.capture.observe.places import OWN_FOLDER

#: The files of the package that are programs themselves, or parts of one.
PROGRAMS = (OWN_FOLDER + "demo.py", OWN_FOLDER + "studies/fitting/modules.py")


@contextmanager
def own_frames_skipped() -> Iterator[None]:
    """Inside the block Dynamo skips frames of explorer's functions, as it skips torch's; it may still inline them.

    A compiled function may call a part of torch that Dynamo skips, such as `standalone_compile`. Explorer's replacements of
    torch's functions there would be compiled like the program's own, and their graphs would be among the program's.
    """
    from torch._dynamo import trace_rules

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def check(obj: Any, *args: Any, **options: Any) -> Any:
            # of a frame torch asks with its code, and of a call that it may inline with the function
            file = obj.co_filename if isinstance(obj, CodeType) else ""
            return (file.startswith(OWN_FOLDER) and file not in PROGRAMS) or original(obj, *args, **options)

        return check

    with replaced(trace_rules, "check", make):
        yield


@contextmanager
def own_frames_unseen() -> Iterator[None]:
    """Inside the block Inductor's scheduler sees the stack without explorer's frames.

    With `check_stack_no_cycles_TESTING_ONLY` it refuses a stack that has one line twice, which would mislead a profiler. A
    replacement of explorer's that serves several functions of torch is on the stack once for each.
    """
    from torch._inductor import scheduler

    def make(original: ModuleType) -> ModuleType:
        seen = ModuleType(original.__name__, original.__doc__)
        vars(seen).update(vars(original))

        def extract_stack(*args: Any, **options: Any) -> Any:
            stack = original.extract_stack(*args, **options)
            return type(stack).from_list([frame for frame in stack if not frame.filename.startswith(OWN_FOLDER)])

        vars(seen)["extract_stack"] = extract_stack
        return seen

    with replaced(scheduler, "traceback", make):
        yield
