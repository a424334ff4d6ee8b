"""Context: where a compile is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Context:
    """Where the compile of a thread is.

    `frame` is the compile id, such as "0/1", as the compiler counts, "" outside of a compile. `graph` is "joint", "forward",
    "backward" or "inference", "" where no graph is under way. `section` is Inductor's round of passes, "pre_grad", "joint"
    or "post_grad", "" outside of them. `path` names the graph that the round is at by the attributes that lead to it from the
    outermost one, such as "cond_true_0"; the outermost graph has the path "".
    """

    frame: str = ""
    graph: str = ""
    section: str = ""
    path: str = ""
