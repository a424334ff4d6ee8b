"""What is kept of Dynamo's log."""

from __future__ import annotations

from explorer.capture.observe.dynamo import without_own_calls
from explorer.capture.observe.places import OWN_FOLDER


def test_explorers_own_calls_are_cut_from_a_traceback() -> None:
    """Entries of explorer's files go, with their code lines; everything else stays as it is."""
    own = f'  File "{OWN_FOLDER}session.py", line 9, in trace\n    run()\n    ^^^^^\n'
    users = '  File "mine.py", line 3, in f\n    return x\n'
    assert without_own_calls(f"Reason\n{own}{users}{own}after\n") == f"Reason\n{users}after\n"
