"""Guards: rows read from Dynamo's printed guard tree, in several versions of torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from explorer.model.values import Event, plain
from explorer.stages.dynamo.guards import STAGE, Guard, GuardPlace, guard_rows, with_origins
from explorer.tracing.traced import Trace
from tests.facts import untold

TREE = """
TREE_GUARD_MANAGER:
+- RootGuardManager
| +- LAMBDA_GUARD: torch._functorch.aot_autograd.utils.top_saved_tensors_hooks ids == None  # _dynamo/output_graph.py:1135 in init_ambient_guards
| +- GLOBAL_STATE: ___check_global_state() against {"allow_tf32":false,"num_threads":2}
| +- TORCH_FUNCTION_MODE_STACK: ___check_torch_function_mode_stack()
| +- GuardManager: source=L['a'], accessed_by=FrameLocalsGuardAccessor(key='a', framelocals_idx=0), type=<class 'torch.Tensor'>, tag_safe=(False, False)
| | +- TENSOR_MATCH: check_tensor(L['a'], Tensor, DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, AutogradCPU), torch.float32, device=None, requires_grad=False, size=[10], stride=[1])  # x = a / (torch.abs(a) + 1)  # tests/programs.py:24 in toy_example
| | +- NO_TENSOR_ALIASING: check_no_aliasing(L['a'], L['b'])
| +- GuardManager: source=L['b'], accessed_by=FrameLocalsGuardAccessor(key='b', framelocals_idx=1), type=<class 'torch.Tensor'>, tag_safe=(False, False)
| | +- NO_HASATTR: hasattr(L['b'], '_dynamo_dynamic_indices') == False           # if b.sum() < 0:  # tests/programs.py:25 in toy_example
| | +- NO_TENSOR_ALIASING
| +- GuardManager: source=G, accessed_by=GlobalsGuardAccessor, type=<class 'dict'>, tag_safe=(False, False)
| | +- GuardManager: source=G['torch'], accessed_by=DictGetItemGuardAccessor('torch'), type=<class 'module'>, tag_safe=(False, False)
| | | +- ID_MATCH: ___check_obj_id(G['torch'], 2), type=<class 'module'>  # x = a / (torch.abs(a) + 1)  # tests/programs.py:24 in toy_example
| | | +- GuardManager: source=G['torch'].abs, accessed_by=GetAttrGuardAccessor(abs), type=<class 'builtin_function_or_method'>, tag_safe=(False, False)
| | | | +- ID_MATCH: ___check_obj_id(G['torch'].abs, 3), type=<class 'builtin_function_or_method'>  # x = a / (torch.abs(a) + 1)  # tests/programs.py:24 in toy_example
| +- LAMBDA_GUARD: L['a'].size()[0] <= 64

Guard latency = 30.28 us
"""  # noqa: E501 the lines are Dynamo's
SOURCE = "def toy_example(a, b):\n    \n    x = a / (torch.abs(a) + 1)\n    if b.sum() < 0:\n        b = b * -1\n"


def tree(*guards: str) -> str:
    return "\n".join(["TREE_GUARD_MANAGER:", "+- RootGuardManager", *guards])


def test_each_guard_is_a_row() -> None:
    """Every leaf of the tree is a row of its kind, in order; managers and the latency are none."""
    assert [row["kind"] for row in guard_rows(TREE)] == [
        "LAMBDA_GUARD",
        "GLOBAL_STATE",
        "TORCH_FUNCTION_MODE_STACK",
        "TENSOR_MATCH",
        "NO_TENSOR_ALIASING",
        "NO_HASATTR",
        "NO_TENSOR_ALIASING",
        "ID_MATCH",
        "ID_MATCH",
        "LAMBDA_GUARD",
    ]


def test_a_guard_has_the_source_of_the_manager_it_hangs_on() -> None:
    """The source is that of the nearest manager above, not of one beside; guards of the root have none."""
    assert [row["source"] for row in guard_rows(TREE)] == [
        "",
        "",
        "",
        "L['a']",
        "L['a']",
        "L['b']",
        "L['b']",
        "G['torch']",
        "G['torch'].abs",
        "",
    ]


def test_a_manager_without_a_source_passes_on_the_one_above() -> None:
    """A guard under a manager that names no source has that of the next one further out; one beside it does not count."""
    rows = list(
        guard_rows(
            tree(
                "| +- DictManager: source=G['d'], accessed_by=DictGetItemGuardAccessor('d')",
                "| | +- KeyManager: GuardManager",
                "| | | +- EQUALS_MATCH: 'a'",
                "| +- GuardManager: no words",
                "| | +- EQUALS_MATCH: 'b'",
            )
        )
    )
    assert [(row["source"], row["expression"]) for row in rows] == [("G['d']", "'a'"), ("", "'b'")]


def test_a_guard_names_the_users_line() -> None:
    """Expression, code, file and line are told apart at the two comments."""
    row = next(row for row in guard_rows(TREE) if row["kind"] == "NO_HASATTR")
    assert row == Guard(
        kind="NO_HASATTR",
        source="L['b']",
        expression="hasattr(L['b'], '_dynamo_dynamic_indices') == False",
        code="if b.sum() < 0:",
        file="tests/programs.py",
        line=25,
        function="toy_example",
        framework="",
        note="",
    )


def test_a_guard_without_code_still_names_its_line() -> None:
    """Ambient guards have only a place; guards without one have an empty file and line 0."""
    ambient, state, *_ = guard_rows(TREE)
    assert (ambient["file"], ambient["line"], ambient["code"]) == ("_dynamo/output_graph.py", 1135, "")
    assert ambient["expression"] == "torch._functorch.aot_autograd.utils.top_saved_tensors_hooks ids == None"
    assert (state["file"], state["line"]) == ("", 0) and state["expression"].endswith('"num_threads":2}')


@pytest.mark.parametrize(
    ("comment", "code", "file", "function"),
    [
        ("# return x * y  # my project/model.py:7 in f", "return x * y", "my project/model.py", "f"),
        ("# f(x)  # ipykernel_12/345.py:7 in <lambda>", "f(x)", "ipykernel_12/345.py", "<lambda>"),
        ("# x = y  # of mine  # a.py:7 in forward", "x = y  # of mine", "a.py", "forward"),
    ],
)
def test_places_of_every_form(comment: str, code: str, file: str, function: str) -> None:
    """Folders with spaces, notebook cells, lambdas, and code with a comment of its own."""
    (row,) = guard_rows(tree(f"| +- ID_MATCH: ___check_obj_id(L['x'], 2)           {comment}"))
    assert (row["expression"], row["code"], row["file"], row["line"]) == ("___check_obj_id(L['x'], 2)", code, file, 7)


def test_an_empty_tree_has_no_rows() -> None:
    """No text and no guards give no rows."""
    assert list(guard_rows("")) == [] == list(guard_rows(tree()))


def test_the_stage_shows_a_line_a_guard_and_keeps_the_tree() -> None:
    """The text has the source, the kind and the reason in each line, in the order of `rows`; `tree` is Dynamo's own."""
    made = STAGE.artifact_of(Event("guards", 0.0, "0/0", data=plain({"text": TREE})), "0/0:guards")
    assert len(made.lines) == len(made.data["rows"]) == 9 and made.data["tree"] == TREE
    assert made.lines[3].startswith("L['a']") and made.lines[3].endswith("# x = a / (torch.abs(a) + 1)")
    assert made.lines[0].startswith("(global)")


def test_guards_link_to_the_line_that_made_them_necessary(with_source: Callable[..., Trace]) -> None:
    """Each guard with a place in a source of the trace is linked to it, and each that follows from such a one; no other is."""
    made = STAGE.artifact_of(Event("guards", 0.0, "0/0", data=plain({"text": TREE})), "0/0:guards")
    links = list(STAGE.link(made, with_source(SOURCE, "somewhere/tests/programs.py", 22)))
    assert [(link.source_lines, link.target, link.target_lines) for link in links] == [
        ((4,), "0/0:source", (3,)),
        ((5,), "0/0:source", (3,)),
        ((6,), "0/0:source", (4,)),
        ((7,), "0/0:source", (3,)),
        ((8,), "0/0:source", (3,)),
        ((9,), "0/0:source", (3,)),
    ]
    assert [link.how == "derived guard" for link in links] == [False, True, False, False, False, True]


DYNAMIC = tree(
    "| +- GLOBAL_STATE: ___check_global_state() against {}",
    "| +- GuardManager: source=L['x'], accessed_by=FrameLocalsGuardAccessor(key='x', framelocals_idx=0)",
    "| | +- TYPE_MATCH: ___check_type_id(L['x'], 7), type=<class 'Tensor'>  # if n > 3:  # a/b.py:5 in f (HINT: type Tensor)",
    "| | +- TENSOR_MATCH: check_tensor(L['x'], Tensor, size=[None, 8])                # y = x.sin()  # a/b.py:4 in f",
    "| | +- NO_TENSOR_ALIASING: check_no_aliasing(L['x'], L['z'])",
    "| +- GuardManager: source=L['z'], accessed_by=FrameLocalsGuardAccessor(key='z', framelocals_idx=1)",
    "| | +- TENSOR_MATCH: check_tensor(L['z'], Tensor, size=[None, 8])                # return y * z  # a/b.py:6 in f",
    "| | +- NO_TENSOR_ALIASING",
    "+- LAMBDA_GUARD: 8*L['z'].size()[0] <= 2147483647  # (_inductor/codegen/simd.py:3000 in can_use_32bit_indexing)",
    "+- LAMBDA_GUARD: 4 <= L['x'].size()[0]  # if n > 3:  # a/b.py:5 in f (_dynamo/variables/tensor.py:2606 in evaluate_expr)",
    "+- LAMBDA_GUARD: 2 <= L['x'].size()[0]  # y = x.sin()  # a/b.py:4 in f (user code shown is first use of this value)",
    "+- LAMBDA_GUARD: L['x'].stride()[0] == L['x'].size()[1]  # (unknown source L['x'].stride()[0], please file a bug)",
)


def test_a_guard_with_two_origins_has_the_code_of_the_first() -> None:
    """Where torch joins the places of two conditions, the code is the user's line alone, without the remark behind it."""
    both = (
        "+- LAMBDA_GUARD: 2 <= L['x'].size()[0] <= 4  # if n > 4:  # a/b.py:5 in f (user code shown is first use of this value)"
        " and if n > 4:  # a/b.py:5 in f (_dynamo/variables/tensor.py:2606 in evaluate_expr)"
    )
    (row,) = with_origins(guard_rows(both))
    assert (row["code"], row["file"], row["line"], row["function"]) == ("if n > 4:", "a/b.py", 5, "f")


def test_a_comment_in_the_users_line_is_part_of_its_code() -> None:
    """The place begins at the last mark; what stands before it is the user's line."""
    (row,) = with_origins(guard_rows("+- LAMBDA_GUARD: 2 <= L['x'].size()[0]  # if n > 4:  # small  # a/b.py:5 in f (a remark)"))
    assert (row["code"], row["line"]) == ("if n > 4:  # small", 5)


def test_every_guard_has_an_origin() -> None:
    """A line of the user's, torch's own place, what it is derived from, or that the whole program's state is meant."""
    made_at = [GuardPlace(kind="GLOBAL_STATE", source="", place="_dynamo/output_graph.py:1124 in init_ambient_guards")]
    state, kind, x, alias, z, index, more, two, stride = with_origins(guard_rows(DYNAMIC), made_at)
    assert not untold(state["origin"], "torch", "_dynamo/output_graph.py:1124", "init_ambient_guards")
    assert (kind["origin"], kind["note"]) == ("a/b.py:5 in f", "type Tensor")
    assert x["origin"] == "a/b.py:4 in f" and z["origin"] == "a/b.py:6 in f"
    assert alias["derived_from"] == (("TENSOR_MATCH", "L['x']"), ("TENSOR_MATCH", "L['z']"))
    assert not untold(alias["origin"], "derived", "TENSOR_MATCH", "L['x']", "L['z']", "a/b.py:4")
    assert index["derived_from"] == (("TENSOR_MATCH", "L['z']"),) and (index["file"], index["line"]) == ("a/b.py", 6)
    assert index["framework"].startswith("_inductor/codegen/simd.py:3000") and index["framework"] in index["origin"]
    assert (more["file"], more["line"], more["code"]) == ("a/b.py", 5, "if n > 3:")
    assert more["framework"] == "_dynamo/variables/tensor.py:2606 in evaluate_expr"
    assert two["expression"] == "2 <= L['x'].size()[0]" and two["note"].startswith("user code shown is first use")
    assert stride["derived_from"] == (("TENSOR_MATCH", "L['x']"),) and "please file a bug" in stride["note"]
    ambient, *_ = with_origins(guard_rows(DYNAMIC))
    assert not untold(ambient["origin"], "torch", "program") and untold(ambient["origin"], "derived")


def test_a_guard_on_several_values_is_listed_once() -> None:
    """Dynamo's tree has it under each of them, with its text under the first only."""
    kinds = [row["kind"] for row in with_origins(guard_rows(DYNAMIC))]
    assert kinds.count("NO_TENSOR_ALIASING") == 1


def test_a_derived_guard_links_to_the_line_of_what_it_is_derived_from(with_source: Callable[..., Trace]) -> None:
    """The link says that it is derived."""
    made = STAGE.artifact_of(Event("guards", 0.0, "0/0", data=plain({"text": DYNAMIC})), "0/0:guards")
    links = {link.source_lines: link for link in STAGE.link(made, with_source("def f(x, z):\n    y\n    n\n    z", "a/b.py", 3))}
    assert (links[(6,)].target_lines, links[(6,)].how) == ((4,), "derived guard")
    assert links[(5,)].how == "guard comment"


def test_a_guard_in_a_module_of_torch_has_the_line_that_calls_it() -> None:
    """The user's line is kept beside torch's own, and a guard on the user's own line has no other."""
    tree = "+- GuardManager: source=L['x'], accessed_by=FrameLocalsGuardAccessor\n| +- TENSOR_MATCH: check(L['x'])  "
    tree += "# return F.conv2d(  # torch/nn/modules/conv.py:560 in _conv_forward"
    user = ("vit.py", 55, "x = self.patch(images)")
    made_at = [GuardPlace(kind="TENSOR_MATCH", source="L['x']", place="", user=user)]
    (row,) = with_origins(guard_rows(tree), made_at)
    assert (row.user, row.line, row.code) == (user, 560, "return F.conv2d(")
    assert with_origins(guard_rows(tree))[0].user is None
