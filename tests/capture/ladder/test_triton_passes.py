"""MLIR's dumps, read into passes."""

from __future__ import annotations

from explorer.capture.ladder.triton_passes import rows

SAID = """-- explorer stage ttir
// -----// IR Dump Before Inliner (inline) ('builtin.module' operation) //----- //
module {
  a
}

// -----// IR Dump Before CSE (cse) ('builtin.module' operation) //----- //
module {
  b
} loc(#loc)
#loc = loc(unknown)


-- explorer stage ttgir
// -----// IR Dump Before TritonGPUCoalesce (tritongpu-coalesce) ('builtin.module' operation) //----- //
module {
  c
}
"""


def test_each_pass_ends_where_the_next_begins() -> None:
    """The text after a pass is the text before the next; after the last pass it is the stage's."""
    made = list(rows(SAID, {"ttir": "module {\n  b\n} loc(#loc)\n#loc = loc(unknown)\n", "ttgir": "module {\n  d\n}"}))
    assert [(r["stage"], r["argument"], r["changed"]) for r in made] == [
        ("ttir", "inline", True),
        ("ttir", "cse", False),
        ("ttgir", "tritongpu-coalesce", True),
    ]
    assert made[0]["after"] == made[1]["before"]


def test_a_crash_is_the_error_of_the_pass_it_happened_in() -> None:
    """The last pass that began has the error and no text after it; the ones before are as always."""
    made = list(rows(SAID, {}, "crashed by signal SIGSEGV"))
    assert [r["error"] for r in made] == ["", "", "crashed by signal SIGSEGV"] and made[-1]["after"] == ""


STEPS = """-- explorer stage ttgir
// -----// IR Dump Before TritonGPUPipeline (tritongpu-pipeline) ('builtin.module' operation) //----- //
module {
  a
}


// -----// SoftwarePipeliner internal IR Dump After: LowerLoops
module {
  b
}


// -----// IR Dump Before CSE (cse) ('builtin.module' operation) //----- //
module {
  c
}
"""


def test_the_steps_that_a_pass_prints_are_rows_of_their_own() -> None:
    """What triton prints in the middle of a pass is no part of its module: the step before it ends there."""
    made = list(rows(STEPS, {"ttgir": "module {\n  d\n}"}))
    assert [(r["name"], r["before"].split()[2], r["after"].split()[2]) for r in made] == [
        ("TritonGPUPipeline: LowerLoops", "a", "b"),
        ("TritonGPUPipeline", "b", "c"),
        ("CSE", "c", "d"),
    ]


def test_no_dumps_are_no_passes() -> None:
    """A worker that died before its first pass gives no rows."""
    assert list(rows("Segmentation fault", {})) == []
