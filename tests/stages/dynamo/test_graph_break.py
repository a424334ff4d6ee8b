"""Graph breaks: reason, explanation, hints and place, read from Dynamo's message in several versions of torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from explorer.model.values import Event, plain
from explorer.stages.dynamo.graph_break import STAGE, facts
from explorer.tracing.traced import Trace
from tests.facts import untold

TORCH_2_11 = """Graph break in user code at tests/programs.py:25
Graph Break Reason: Data-dependent branching
  Explanation: Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Dynamo does not support tracing dynamic control flow.
  Hint: This graph break is fundamental - it is unlikely that Dynamo will ever be able to trace through your code. Consider finding a workaround.
  Hint: Use `torch.cond` to express dynamic control flow.

  Developer debug context: attempted to jump with TensorVariable()

 For more details about this graph break, please visit: https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html

User code traceback:
  File "tests/record_events.py", line 126, in <module>
    main()
  File "tests/programs.py", line 73, in run_toy_example
    compiled(a, torch.ones(10, device=device))
  File "tests/programs.py", line 25, in toy_example
    if b.sum() < 0:

NoneType: None
"""  # noqa: E501 the lines are Dynamo's
TORCH_2_13 = """Graph break in user code at tests/programs.py:25
Graph Break Reason: Data-dependent branching
  Explanation: Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Dynamo does not support tracing dynamic control flow.

      The branch condition involves a tensor computed as follows:
        # File "tests/programs.py", line 25, in toy_example, code: if b.sum() < 0:
        lt = lt(sum_1, 0)
    
  Hint: For the common pattern `if tensor_cond: x = transform(x)` (e.g. clamping inf/nan values), consider making the code branchless by always applying the transform.
  Hint: Use `torch.cond` to express dynamic control flow.

  Developer debug context: attempted to jump with TensorVariable()

User code traceback:
  File "tests/programs.py", line 73, in run_toy_example
    compiled(a, torch.ones(10, device=device))
  File "tests/programs.py", line 25, in toy_example
    if b.sum() < 0:
       ^^^^^^^^^^^^

NoneType: None
"""  # noqa: E501, W293 the lines are Dynamo's
SOURCE = "def toy_example(a, b):\n    '''Doc.'''\n    x = a\n    if b.sum() < 0:\n        b = b * -1\n    return x * b\n"


def test_a_hint_of_several_lines_is_whole() -> None:
    """A hint's further lines, indented more than its first, belong to it; what follows the hints does not."""
    text = """Graph break in user code at a.py:3
Graph Break Reason: Attempted to call function marked as skipped
  Explanation: Dynamo does not trace it.
  Hint: Write it so:
        with torch.no_grad():
            f(x)

        and not otherwise.
  Hint: Or leave it.

  Developer debug context: module: time
"""
    assert facts(text).hints == ("Write it so:\nwith torch.no_grad():\n    f(x)\n\nand not otherwise.", "Or leave it.")


@pytest.mark.parametrize("text", [TORCH_2_11, TORCH_2_13])
def test_the_message_is_taken_apart(text: str) -> None:
    """Reason, explanation, hints, and the user's place, which is the one in the first line."""
    found = facts(text)
    assert found["reason"] == "Data-dependent branching"
    assert found["explanation"].startswith("Detected data-dependent branching (e.g.") and "\n" not in found["explanation"]
    assert len(found["hints"]) == 2 and found["hints"][1] == "Use `torch.cond` to express dynamic control flow."
    assert (found["file"], found["line"]) == ("tests/programs.py", 25)


def test_without_a_first_line_the_innermost_place_counts() -> None:
    """A message that does not say where gets the last place of its traceback."""
    found = facts(TORCH_2_11.partition("\n")[2])
    assert (found["file"], found["line"], found["reason"]) == ("tests/programs.py", 25, "Data-dependent branching")


def test_a_place_with_spaces_and_colons() -> None:
    """The file may hold spaces and a drive letter."""
    found = facts("Graph break in user code at C:\\my code\\a.py:7\nGraph Break Reason: why\n")
    assert (found["file"], found["line"]) == ("C:\\my code\\a.py", 7)


def test_other_words_still_give_a_reason() -> None:
    """A message of an unknown form is its own reason, by its first line; an empty one has none."""
    found = facts("call_function BuiltinVariable(print)\nmore")
    assert (found["reason"], found["file"], found["line"], found["hints"]) == ("call_function BuiltinVariable(print)", "", 0, ())
    assert facts("")["reason"] == ""


@pytest.mark.parametrize(
    "under_way",
    [
        "Encountered graph break when attempting to trace CALL_FUNCTION_EX: a variadic function call, e.g. f(*args):",
        "Failed to handle graph break gracefully. Skipping the function and falling back to eager. Graph break encountered:",
    ],
)
def test_the_reason_is_why_it_broke_not_what_was_under_way(under_way: str) -> None:
    """A break inside a call is worded in two paragraphs; the reason is the second."""
    text = f"Graph break in user code at a.py:1\nGraph Break Reason: {under_way}\n\nAttempted to wrap RNN\n  Hint: Do this"
    assert facts(text)["reason"] == "Attempted to wrap RNN"


def test_the_stage_is_titled_by_place_and_reason() -> None:
    """The title says where and why; the text is Dynamo's message without the empty traceback at its end."""
    made = STAGE.artifact_of(Event("graph_break", 0.0, "0/0", data=plain({"text": TORCH_2_11})), "id")
    assert not untold(made.title, "Graph break", "programs.py:25", "Data-dependent branching")
    assert made.text.endswith("if b.sum() < 0:") and made.text.startswith("Graph break in user code")


def test_the_break_links_to_its_line(with_source: Callable[..., Trace]) -> None:
    """The first line of the message is linked to the user's line; where the trace has no such source, nothing is."""
    made = STAGE.artifact_of(Event("graph_break", 0.0, "0/0", data=plain({"text": TORCH_2_11})), "id")
    (link,) = STAGE.link(made, with_source(SOURCE, "tests/programs.py", 22))
    assert (link.source_lines, link.target, link.target_lines) == ((1,), "0/0:source", (4,))
    assert list(STAGE.link(made, with_source(SOURCE, "tests/programs.py", 220))) == []
