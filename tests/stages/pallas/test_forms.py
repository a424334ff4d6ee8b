"""The forms of a Pallas kernel: each line leads to the line of the kernel that JAX's locations state."""

from __future__ import annotations

from explorer.model.values import Artifact, Event
from explorer.stages.pallas import JAXPR, MOSAIC, STABLEHLO
from explorer.stages.pallas.forms import NOT_MADE, event_data, places
from explorer.tracing.traced import Trace

KERNEL = Artifact(
    "k", "kernel", "0/0", "inference", "Kernel k", "pallas",
    "import jax\ndef k_kernel(in_ptr0, out_ptr0):\n    tmp0 = in_ptr0[...]\n    tmp1 = jnp.sum(tmp0)\n    out_ptr0[...] = tmp1\n"
    "\n"
    "def k_jit_wrapper(x):\n    return pl.pallas_call(k_kernel)(x)",
    kernel="k",
)  # fmt: skip
#: As jax 0.10 writes it, with a padding of spaces taken out.
EQUATIONS = """let jaxpr = { lambda ; a:Ref<default>{f32[8]} b:Ref<default>{f32[]}. let
    c:f32[8] <- a[...]  # kernel.py:3:11 (k_kernel)
    d:f32[] = jit[  # kernel.py:4:11 (k_kernel)
      name=sum
    ] c
    e:f32[], b[...] <- b[...], d  # kernel.py:5:4 (k_kernel)
  in () } in
{ lambda ; f:f32[8]. let
    g:f32[] = pallas_call[  # kernel.py:8:11 (k_jit_wrapper)
      jaxpr=jaxpr
    ] f
  in (g,) }"""
#: A sum that JAX traced at line 3, and took again at line 4; the loop that interprets has the line of pallas_call alone.
MODULE = """module @jit_k {
  func.func public @main(%arg0: tensor<8xf32> loc("x")) -> tensor<f32> {
    %c = stablehlo.constant dense<0> : tensor<i32> loc(#loc4)
    %0 = stablehlo.add %c, %c : tensor<i32> loc(#loc4)
    %1 = stablehlo.abs %arg0 : tensor<8xf32> loc(#loc6)
    %2 = stablehlo.reduce(%1 init: %c) applies stablehlo.add loc(#loc7)
    return %2 : tensor<f32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc1 = loc("kernel.py":3:11 to :23)
#loc2 = loc("kernel.py":4:11 to :23)
#loc3 = loc("kernel.py":8:11 to 9:3)
#loc4 = loc("jit(k)/pallas_call"(#loc3))
#loc5 = loc("k_kernel"(#loc1))
#loc6 = loc(callsite(#loc5 at #loc3))
#loc8 = loc(callsite(#loc5 at #loc2))
#loc7 = loc("sum"(callsite(#loc8 at #loc3)))"""


def form(stage: str, text: str) -> Artifact:
    made = {"pallas_jaxpr": JAXPR, "pallas_stablehlo": STABLEHLO, "pallas_mosaic": MOSAIC}[stage]
    event = Event(stage, 0.0, "0/0", "inference", event_data(KERNEL, "kernel.py", text))
    return made.artifact_of(event, "f")


def test_the_lines_of_the_function_of_pallas_call_are_known() -> None:
    """They are those below its `def`, up to the blank line behind it."""
    data = event_data(KERNEL, "kernel.py", "")
    assert (data.first, data.last) == (2, 5)


def test_an_equation_leads_to_the_line_behind_it() -> None:
    """Each equation has its line as a comment; further lines of one have none, and pallas_call's is the host's."""
    made = form("pallas_jaxpr", EQUATIONS)
    assert (made.title, made.language, made.kernel) == ("Jaxpr of k", "jaxpr", "k")
    assert places(made) == {2: 3, 3: 4, 6: 5, 9: 8}
    assert JAXPR.kinds is not None
    assert [number for number, kind in enumerate(JAXPR.kinds(made), 1) if not kind] == [2, 3, 6]


def test_an_operation_leads_to_the_outermost_line_in_the_kernel() -> None:
    """JAX traces a function once: what it made at line 3 is line 4's where line 4 called it again."""
    made = form("pallas_stablehlo", MODULE)
    assert {number: line for number, line in places(made).items() if line <= 5} == {5: 3, 6: 4}
    assert STABLEHLO.kinds is not None
    assert [number for number, kind in enumerate(STABLEHLO.kinds(made), 1) if not kind] == [5, 6]
    assert STABLEHLO.kinds(made)[3] == "host code"


def test_forms_link_to_the_kernel_of_their_name() -> None:
    """Each line with a location links to the kernel's line, and says by what; without the kernel there is no link."""
    for made, how in ((form("pallas_jaxpr", EQUATIONS), "jaxpr source info"), (form("pallas_mosaic", MODULE), "loc")):
        stage = JAXPR if made.language == "jaxpr" else MOSAIC
        links = list(stage.link(made, Trace(artifacts=(KERNEL, made))))
        assert {(link.source_lines[0], link.target_lines[0]) for link in links} == set(places(made).items())
        assert {(link.target, link.how) for link in links} == {("k", how)}
        assert list(stage.link(made, Trace(artifacts=(made,)))) == []


def test_a_form_that_jax_does_not_make_says_why() -> None:
    """The reason is the text, and none of its lines computes or links."""
    made = form("pallas_mosaic", f"{NOT_MADE}NotImplementedError\n// no scatter-add")
    assert MOSAIC.kinds is not None
    assert set(MOSAIC.kinds(made)) == {"comments"} and places(made) == {}
