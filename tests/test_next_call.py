"""The form of the next call says which guards fail, as torch decides it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import explorer
from explorer.view.payload import payload
from tests.facts import untold
from tests.in_tab import APP, load_axe, serious, show
from tests.tabs import to_texts

Change = dict[tuple[str, str], str]

FAILS, HOLDS = "recompiles", "no guard on the arguments fails"


def section(tab: Any) -> Any:
    return show(tab, "Guards").locator("details", has_text="recompile?").first


def describe(form: Any, changes: Change) -> str:
    """Fill in a change and return the verdict."""
    for (name, what), value in changes.items():
        control = form.get_by_label(f"{what} of {name}", exact=True)
        if control.evaluate("e => e.tagName") == "INPUT":
            control.fill(value)
        else:
            control.select_option(value)
    return str(form.get_by_role("status").inner_text())


def verdict(form: Any, changes: Change, held: Change) -> str:
    """Return the verdict on a call with some changes; then the form is as it was."""
    said = describe(form, changes).split("\n")[0]
    describe(form, held)
    return said.split(":")[0].split(" (")[0].split(".")[0].strip()


def f(x: Any, y: Any, n: int, flag: bool, labels: Any = None, mode: str = "a", scale: float = 1.0) -> Any:
    z = x * n * scale
    if flag:
        z = z + 1
    if labels is not None:
        z = z + 2
    if mode == "a":
        z = z.sin()
    if x.shape[0] > 4:
        z = z * 2
    return z @ y


#: Changes of the call that was compiled, as the fields of the form have them.
X, Y = ("x", "size"), ("y", "size")
CHANGES: dict[str, Change] = {
    "as compiled": {},
    "batch": {X: "16, 4"},
    "small batch": {X: "3, 4"},
    "one row": {X: "1, 4"},
    "inner of one": {X: "8, 6"},
    "inner of both": {X: "8, 6", Y: "6, 3"},
    "outer": {Y: "4, 7"},
    "outer is one": {Y: "4, 1"},
    "three dimensions": {X: "2, 8, 4"},
    "half": {("x", "dtype"): "float16", ("y", "dtype"): "float16"},
    "double": {("x", "dtype"): "float64", ("y", "dtype"): "float64"},
    "gradient": {("x", "requires_grad"): "True"},
    "meta": {("x", "device"): "meta", ("y", "device"): "meta"},
    "another number": {("n", "value"): "4"},
    "a float": {("n", "value"): "3.0"},
    "another flag": {("flag", "value"): "False"},
    "labels": {("labels", "value"): "not None"},
    "another text": {("mode", "value"): "'b'"},
    "the same text": {("mode", "value"): '"a"'},
    "another scale": {("scale", "value"): "2.5"},
    "the same scale": {("scale", "value"): "1.00"},
    "a whole scale": {("scale", "value"): "1"},
}


def called(change: Change) -> tuple[Any, ...]:
    """The arguments that a change describes."""
    import torch

    def tensor(name: str, sizes: str) -> Any:
        dtype = getattr(torch, change.get((name, "dtype"), "float32"))
        device = change.get((name, "device"), "cpu")
        grad = change.get((name, "requires_grad")) == "True"
        shape = [int(size) for size in change.get((name, "size"), sizes).split(",")]
        return torch.ones(shape, dtype=dtype, device=device, requires_grad=grad)

    values = {"n": "3", "flag": "True", "labels": "None", "mode": "'a'", "scale": "1.0"}
    literals: dict[str, Any] = {"not None": 5}
    written = {name: change.get((name, "value"), held) for name, held in values.items()}
    given = [literals[text] if text in literals else eval(text) for text in written.values()]
    return tensor("x", "8, 4"), tensor("y", "4, 3"), *given


@pytest.mark.compile
@pytest.mark.browser
@pytest.mark.parametrize("dynamic", [None, True])
def test_the_verdict_is_what_torch_does(opened: Callable[..., Any], dynamic: bool | None) -> None:
    """For each change, the form says that it recompiles when torch compiles again, and only then."""
    import torch
    from torch._dynamo.testing import CompileCounter

    trace = explorer.trace(f, *called({}), dynamic=dynamic, backend="eager")
    form = section(opened(trace))
    held: Change = {X: "8, 4", Y: "4, 3", ("n", "value"): "3", ("scale", "value"): "1.0", ("mode", "value"): "'a'"}
    held |= {("flag", "value"): "True", ("labels", "value"): "None"}
    held |= {(name, "dtype"): "float32" for name in "xy"} | {(name, "device"): "cpu" for name in "xy"}
    held |= {("x", "requires_grad"): "False"}
    decided, truth = {}, {}
    with torch.no_grad():
        for name, change in CHANGES.items():
            torch._dynamo.reset()
            counter = CompileCounter()
            compiled = torch.compile(f, backend=counter, dynamic=dynamic)
            compiled(*called({}))
            before = counter.frame_count
            try:
                compiled(*called(change))
                again = counter.frame_count > before
            except torch._dynamo.exc.TorchRuntimeError:
                again = True  # it traced the function anew, which such arguments break
            truth[name] = FAILS if again else HOLDS
            decided[name] = verdict(form, change, held)
    torch._dynamo.reset()
    assert decided == truth


@pytest.mark.browser
def test_a_changed_size_leads_to_the_guard_that_fails(opened: Callable[..., Any], rotary: Any) -> None:
    """The verdict names the guard and leads to its line; it counts what it did not judge; a size in words is undecided.

    The heading has the number of guards, and of the facts that the table lists."""
    tab = opened(rotary)
    form = section(tab)
    rows = form.locator(".guard-groups").count()
    status = form.get_by_role("status").inner_text()
    assert rows >= 2 and not untold(status, "Not judged", "facts that no field here decides", "objects ", "program ")
    heading = show(tab, "Guards").get_by_role("heading", name="must hold at the next call").inner_text()
    counts = re.fullmatch(r"(\d+) guards: (\d+) facts must hold at the next call", heading)
    (guards,) = (text for text in payload(rotary)["artifacts"] if text["stage"] == "guards")
    assert counts and [int(count) for count in counts.groups()] == [guards["lines"], len(guards["rows"])]
    assert verdict(form, {("x", "size"): "2, eight, 32"}, {("x", "size"): "2, 8, 32"}) == "cannot tell"
    load_axe(tab)
    assert not serious(tab)
    describe(form, {("x", "size"): "2, 9, 32"})
    form.get_by_role("button", name="x must be float32 [2, 8, 32] on cpu").click()
    (guards,) = rotary.find("guards")
    line = next(n for n, text in enumerate(guards.lines, 1) if text.startswith("L['x']") and "TENSOR_MATCH" in text)
    assert f"Line {line} of Guards" in tab.get_by_role("status").last.inner_text()


def test_a_guard_from_the_overview_stands_alone_and_the_sizes_are_handed_on(opened: Callable[..., Any], rotary: Any) -> None:
    """A click on the guard that fails closes what an earlier question left; a text that the user picked stays.

    The user's line stands beside it in a function that computes something. Guards & breaks has the typed sizes already.
    """
    tab = opened(rotary)
    panes = f"() => {APP}.panes.list.map((pane) => pane.store.artifact(pane.artifact).stage)"
    field = show(tab, "Overview").get_by_label("size of x", exact=True)
    field.fill("7, 7")
    fails = tab.locator(".inputs [role=status]").get_by_role("button").first
    fails.click()
    assert tab.evaluate(panes) == ["guards", "source"]
    form = section(tab)
    assert form.get_by_label("size of x", exact=True).input_value() == "7, 7"
    assert form.get_by_role("status").inner_text().startswith("recompiles")
    form.get_by_label("size of x", exact=True).fill("8, 8")
    show(tab, "Overview")
    assert field.input_value() == "8, 8"
    to_texts(tab)
    picker = tab.get_by_role("region", name="right text").locator("select").first
    picker.select_option(str(next(n for n, a in enumerate(rotary.artifacts) if a.stage == "post_grad")))
    show(tab, "Overview")
    fails.click()
    assert tab.evaluate(panes)[:2] == ["guards", "post_grad"]
