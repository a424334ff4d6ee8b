"""The LLVM IR of each Triton kernel."""

from __future__ import annotations

from explorer.model.stage import Stage
from explorer.model.values import Artifact, Event
from explorer.stages.kinds import by_rules, rules
from explorer.stages.triton import origins
from explorer.stages.triton.origins import KernelForm, KernelFormText


def render(event: Event, id: str) -> Artifact:
    """The kernel's LLIR."""
    return origins.kernel_artifact(event, id, "LLIR", "llvm")


LINES = rules(
    blank=r"^\s*$",
    comments=r"^\s*;",
    declarations=r"^(source_filename|target|declare|@|attributes|!|%\w+ = type)",
    signature=r"^define ",
    labels=r"^[\w.$-]+:",
    braces=r"^\}",
    stack_slots=r"= alloca ",
    loop_control=r"^\s+(br|ret|switch|unreachable)\b|= phi ",
)


def kinds(artifact: Artifact) -> list[str]:
    """Operations compute; declarations, labels, jumps and what stands around them do not."""
    return by_rules(artifact.lines, LINES)


STAGE = Stage(
    name="llir",
    title="LLVM IR",
    language="llvm",
    event=KernelFormText,
    artifact=KernelForm,
    render=render,
    per_kernel=True,
    kinds=kinds,
    link=origins.link_llvm,
    backend="inductor",
    about="The program of one thread, in LLVM's language, after its optimizer.",
)
