"""Fidelity: what an NVIDIA H200 really got, recorded with torch 2.11, against traces for "h200" without a GPU.

The two recorded halves are compared whole. Live traces are compared with the real half too: with the torch that recorded
it every kernel must be identical, with another what does not depend on the version, and the differences that are known.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.facts import untold

pytest.importorskip("triton")

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data" / "fidelity-h200-torch2.11.json.gz"
#: Workloads that are traced here; `benchmarks/fidelity.py --against` does so with all.
FUNCTIONS = (
    "elementwise bfloat16 training",
    "mlp float32 training",
    "mlp bfloat16 inference",
    "attention float32 inference",
    "attention bfloat16 training",
    "unaligned float32 inference",
    "unaligned bfloat16 training",
)
#: Models are split into other kernels by each release of torch, and are other programs in each of transformers.
MODELS = ("llama bfloat16 training",)
#: Operators that a release names, or does not name, in a fused kernel where torch 2.11 does otherwise: kernel → operators.
NAMED_OTHERWISE = {"prepare_softmax_online": ("exp", "sub")}
#: Kernels that torch 2.14 and newer have otherwise: case → those of torch 2.11 that are not there, those that are instead.
#: Common subexpressions of the joint graph are no longer merged where one is needed by the forward alone and one by the
#: backward. Both products pad relu's result: the forward saved the padded one and the backward's mask, now it saves relu's
#: own. The mask is made in the backward, which pads again: a kernel for the zeros; in the forward that kernel names no relu.
SPLIT_OTHERWISE: dict[str, tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]] = {
    "unaligned bfloat16 training": (
        [("forward", "poi", "addmm_relu_threshold_backward")],
        [("forward", "poi", "addmm"), ("backward", "poi", "mm")],
    )
}


def same_release() -> bool:
    """Whether this torch is the release that the real half was recorded with."""
    import torch

    return torch.__version__.startswith("2.11.")


def merges_across_the_cut() -> bool:
    """Whether equal expressions of the joint graph are merged whichever half needs them: up to torch 2.13."""
    from torch._functorch.compile_utils import fx_graph_cse

    return "extra_node_key" not in inspect.signature(fx_graph_cse).parameters


LIVE = (*FUNCTIONS, *MODELS) if same_release() else FUNCTIONS


@pytest.fixture(scope="module")
def fidelity(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """The benchmark script as a module."""
    return module_at(ROOT / "benchmarks" / "fidelity.py")


@pytest.fixture(scope="module")
def recorded(fidelity: ModuleType) -> tuple[dict[str, Any], dict[str, Any]]:
    """The real half and the half without a GPU, made with the same torch and triton."""
    data = fidelity.load(DATA)
    assert data["versions"]["gpu"] == "NVIDIA H200" and data["versions"]["torch"].startswith("2.11")
    return fidelity.unpacked(data, "real"), fidelity.unpacked(data, "absent")


@pytest.fixture(scope="module")
def live(fidelity: ModuleType) -> dict[str, Any]:
    """Traces for "h200" made here and now."""
    pytest.importorskip("transformers")
    names = list(dict.fromkeys(case.split()[0] for case in LIVE))
    found: dict[str, Any] = fidelity.traced(names, "h200", LIVE, forms=same_release())
    return found


# Recorded ------------------------------------------------------------------------------------------------------------


def test_every_recorded_kernel_is_identical(fidelity: ModuleType, recorded: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Source and metadata, extern calls, TTGIR, PTX and registers of what the GPU launched, in all 36 cases."""
    real, absent = recorded
    rows = fidelity.compare(real, absent)
    assert len(rows) == 36 and sum(len(case["kernels"]) for case in real.values()) == 449
    assert all(kernel["launched"] for case in real.values() for kernel in case["kernels"])
    for name, source, externs, *forms in rows:
        n = len(real[name]["kernels"])
        assert (source, externs) == (f"{n} of {n} ({n})", "same") and forms == [f"{n} of {n}"] * 3, name


def test_what_the_gpu_timed_is_what_was_assumed_of_it(recorded: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """For every product that the H200 timed with and without padding, the faster way is the assumed one."""
    real, absent = recorded
    compared = 0
    for name, case in real.items():
        assumed = {where: not how.startswith("not") for where, how in absent[name]["assumed"]}
        for operation, inputs, faster in case["timed"]:
            one, other = (f"({sizes})" for sizes in re.findall(r"\[([\d, ]+)\]", inputs))
            assert assumed[f"{operation} of {one} and {other}"] == (faster == "padded"), f"{name}: {operation} {inputs}"
            compared += 1
    assert compared > 40


@pytest.mark.parametrize(
    ("part", "column"), [("source", 1), ("externs", 2), ("ttgir", 3), ("ptx", 4), ("registers", 5), ("config", 3)]
)
def test_one_difference_is_seen(fidelity: ModuleType, recorded: tuple[dict[str, Any], Any], part: str, column: int) -> None:
    """A change of one kernel's source, form or config, or of one extern call, shows in its column."""
    name = "attention bfloat16 training"
    one = {name: recorded[0][name]}
    other = copy.deepcopy({name: recorded[1][name]})
    kernel = other[name]["kernels"][0]
    if part == "externs":
        other[name]["externs"].popitem()
    elif part == "source":
        kernel["source"] += " "
    elif part == "config":
        kernel["forms"].pop(one[name]["kernels"][0]["config"])
    else:
        kernel["forms"][one[name]["kernels"][0]["config"]][part] = "another"
    (before,), (after,) = fidelity.compare(one, {name: recorded[1][name]}), fidelity.compare(one, other)
    assert before[column] != after[column]


def test_a_difference_is_explained_by_what_the_gpu_timed_otherwise(
    fidelity: ModuleType, recorded: tuple[dict[str, Any], Any]
) -> None:
    """An assumption that the GPU's timing confirms explains nothing."""
    name = "unaligned bfloat16 training"
    real, ours = (copy.deepcopy({key: half[key] for key in half if key.startswith("unaligned bf")}) for half in recorded)
    assert set(fidelity.explanations(real, ours).values()) == {""}
    ours[name]["kernels"][0]["source"] += " "
    unexplained = fidelity.explanations(real, ours)[name]
    assert re.findall(r"\d+", unexplained) == ["1", "1"] and not untold(unexplained, "unexplained", "kernels", "GPU")
    operation, inputs, choice = real[name]["timed"][0]
    assert choice == "padded"
    real[name]["timed"][0] = [operation, inputs, "as it is"]
    product = fidelity.timed_product(operation, inputs)
    assert not untold(fidelity.explanations(real, ours)[name], "assumed", product, "padding")
    explained, unexplained, missing = fidelity.summary(real, ours).splitlines()[1:]
    assert not untold(explained, "assumption", "1", name)
    assert not untold(unexplained, "unexplained", "0") and not untold(missing, "compared", "0")


@pytest.mark.benchmarks
@pytest.mark.parametrize("train", [False, True])
def test_both_halves_of_a_model_that_drops_layers_drop_the_same(fidelity: ModuleType, train: bool) -> None:
    """Which layers M2M-100 leaves out, it draws on the CPU: nothing else draws there, which a GPU would draw elsewhere."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    model, args, kwargs = fidelity.architecture("m2m_100", "cpu", torch.float32)
    layers = len(model.encoder.layers) + len(model.decoder.layers)
    assert model.training and model.config.encoder_layerdrop > 0 and model.config.decoder_layerdrop > 0
    before = torch.get_rng_state()
    with torch.set_grad_enabled(train):
        model(*args, **kwargs)
    after = torch.get_rng_state()
    torch.set_rng_state(before)
    for _ in range(layers):
        torch.rand([])
    assert torch.equal(torch.get_rng_state(), after)


# Live ----------------------------------------------------------------------------------------------------------------


@pytest.mark.benchmarks
@pytest.mark.parametrize("case", LIVE)
def test_a_trace_made_now_has_the_real_kernels(
    fidelity: ModuleType, recorded: tuple[dict[str, Any], Any], live: dict[str, Any], case: str
) -> None:
    """As many kernels in each graph, the same operators fused, the same extern calls, the same figures of the GPU.

    With the torch that recorded the real half also the same source of every kernel.
    """
    real, ours = recorded[0][case], live[case]
    assert "error" not in ours and ours["failures"] == []
    expected = Counter(map(fused, real["kernels"]))
    gone, instead = ((), ()) if merges_across_the_cut() else SPLIT_OTHERWISE.get(case, ((), ()))
    assert not Counter(map(words, gone)) - expected
    expected = expected - Counter(map(words, gone)) + Counter(map(words, instead))
    assert Counter(map(fused, ours["kernels"])) == expected
    assert ours["externs"] == real["externs"]
    assert gpu_figures(ours) == gpu_figures(real) and len(gpu_figures(ours)) == 2
    if same_release():
        count = len(real["kernels"])
        assert fidelity.same(real["kernels"], ours["kernels"]) == f"{count} of {count} ({count})"


def fused(kernel: dict[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    """A kernel's graph, its kind (poi, red, per …) and the operators it is made of, without what releases name otherwise."""
    kind, operators = re.match(r"triton_(\w+?)_fused_(\w+)_\d+$", kernel["name"]).groups()  # type: ignore[union-attr]
    for part, others in NAMED_OTHERWISE.items():
        if part in operators:
            operators = "_".join(word for word in operators.split("_") if word not in others)
    return kernel["graph"], kind, tuple(operators.split("_"))


def words(kernel: tuple[str, str, str]) -> tuple[str, str, tuple[str, ...]]:
    """A kernel of `SPLIT_OTHERWISE` as `fused` gives it."""
    graph, kind, operators = kernel
    return graph, kind, tuple(operators.split("_"))


def gpu_figures(case: dict[str, Any]) -> set[str]:
    """What the kernels' metadata says of the GPU: its figures, and from how many spilled registers a config is refused."""
    found = re.compile(r"DeviceProperties\([^)]*\)|'spill_threshold': \d+")
    return {text for kernel in case["kernels"] for text in found.findall(kernel["source"])}


@pytest.mark.benchmarks
@pytest.mark.skipif(not same_release(), reason="TTGIR, PTX and registers are compared with the torch that recorded them")
def test_with_the_recorded_release_every_form_is_identical(
    fidelity: ModuleType, recorded: tuple[dict[str, Any], Any], live: dict[str, Any]
) -> None:
    """TTGIR of every kernel, and PTX and registers where torch brings the ptxas that it has on a GPU."""
    import torch

    real = {case: recorded[0][case] for case in LIVE}
    for name, _, _, *forms in fidelity.compare(real, fidelity.with_hashes(live)):
        count = len(real[name]["kernels"])
        assert forms[: 3 if torch.version.cuda else 1] == [f"{count} of {count}"] * (3 if torch.version.cuda else 1), name
