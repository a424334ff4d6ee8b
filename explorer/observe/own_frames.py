"""Keep Dynamo from compiling explorer's own functions, where torch calls them while compiled code runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from explorer.observe.patch import replaced
from explorer.observe.places import OWN_FOLDER

#: The file of the package that is a program itself.
DEMO = OWN_FOLDER + "demo.py"


@contextmanager
def own_frames_skipped() -> Iterator[None]:
    """Inside the block Dynamo skips frames of explorer's functions, as it skips torch's; it may still inline them.

    A compiled function may call a part of torch that Dynamo skips, such as `standalone_compile`. What explorer put in place
    of torch's functions there would be compiled like the program's own, and its graphs would be among the program's.
    """
    from torch._dynamo import trace_rules

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def check(obj: Any, *args: Any, **options: Any) -> Any:
            # of a frame torch asks with its code, and of a call that it may inline with the function
            file = obj.co_filename if isinstance(obj, CodeType) else ""
            return (file.startswith(OWN_FOLDER) and file != DEMO) or original(obj, *args, **options)

        return check

    with replaced(trace_rules, "check", make):
        yield
