"""explorer.fits: the figures of a model for GPUs you don't have, against what torch itself counts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._functorch.config as functorch
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM, LlamaConfig

import explorer
from explorer.entry.cli import main
from explorer.errors import InputError
from explorer.model.wording import quantity
from explorer.reference.gpus.figures import Target
from explorer.studies.fitting import models
from explorer.studies.fitting.answer import NO_LAYERDROP, Fit, cache_bytes, left_out
from explorer.studies.fitting.optimizers import optimizer_memory
from tests.facts import says, untold

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
}
WIDTHS = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 16}
TINY = {"n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 16}


@pytest.fixture(scope="module")
def trained() -> Fit:
    return explorer.fits("LlamaConfig", world=2, batch=2, sequence=16, train=True, optimizer="adamw", **SMALL)


@pytest.fixture(scope="module")
def prefill() -> Fit:
    """A prefill of one layer on two ranks."""
    return explorer.fits("LlamaConfig", world=2, sequence=8, **{**SMALL, "num_hidden_layers": 1})


@pytest.fixture(scope="module")
def own() -> Fit:
    """A module without blocks."""
    return explorer.fits(Own(), torch.ones(8, 32))


@pytest.mark.compile
def test_weights_are_what_torch_counts(trained: Fit) -> None:
    """The bytes of each rank's weights are those of torch's own DTensors, and the parameters those of the whole model."""
    with explorer.Cluster("h100", 2):
        model = models.model_of(models.config_of("LlamaConfig", SMALL), "bfloat16", True)
        parameters = sum(p.numel() for p in model.parameters())
        models.parallelized(model, 2, None)
        local = [t.to_local() if isinstance(t, DTensor) else t for t in (*model.parameters(), *model.buffers())]
    assert trained.bytes_of("weights") == sum(t.numel() * t.element_size() for t in local)
    assert [row["weights"] for row in trained.ranks] == [trained.bytes_of("weights")] * 2
    assert trained.parameters == parameters


@pytest.mark.compile
def test_blocks_of_one_form_are_traced_once(trained: Fit) -> None:
    """The three layers are one region of three calls, and each of them has a moment forward and one backward."""
    assert [(row["region"], row["calls"]) for row in trained.regions] == [
        ("the part before the blocks", 1),
        ("model.layers.0", 3),
        ("the part after the blocks", 1),
    ]
    layers = [(row["region"], row["graph"]) for row in trained.timeline if row["region"].startswith("model.layers")]
    forward = [(f"model.layers.{n}", "forward") for n in range(3)]
    assert layers == [*forward, *((name, "backward") for name, _ in reversed(forward))]


@pytest.mark.compile
def test_the_peak_is_the_largest_moment(trained: Fit) -> None:
    """The rows of `memory` add up to the largest moment, and the verdict compares them with the GPU's memory."""
    assert trained.peak_bytes == max(row["peak"] for row in trained.timeline)
    assert trained.fits and trained.peak_bytes < trained.available == trained.target.memory


@pytest.mark.compile
def test_collectives_have_seconds_of_their_own(trained: Fit) -> None:
    """A layer of a tensor-parallel model exchanges twice forward, after the attention and after the feed-forward part."""
    rows = [row for row in trained.times if row["limit"] == "collectives" and row["region"] == "model.layers.0"]
    assert {row["graph"]: row["number"] for row in rows}["forward"] == 2 * 3
    assert trained.seconds == pytest.approx(sum(row["seconds"] for row in trained.bounds))


@pytest.mark.compile
def test_what_is_printed_says_what_is_left_out(trained: Fit) -> None:
    """The verdict, the parts, what bounds it, whether ranks differ, and what the figures do not hold."""
    said = str(trained)
    head, peak, *_ = said.splitlines()
    assert not untold(head, trained.title, "fits", "2", trained.target.title)
    assert not untold(peak, "peak", trained.peak_at)
    assert not untold(said, "AdamW.step", "cuBLAS", "NCCL") and any(
        not untold(line, "ranks", "alike") for line in said.splitlines()
    )
    assert all(f"{quantity(row['number'], 'launch')}  " in said for row in trained.bounds)
    assert "optimizer=" not in said and "without an optimizer" not in said
    assert not untold(head, "tensor-parallel") and not untold(said, "the optimizer's step")
    unnamed = replace(trained, left_out=left_out(True, None, None, 2))
    assert not untold(str(unnamed).splitlines()[0], "without an optimizer")


@pytest.mark.parametrize(("name", "copies"), [("SGD", 0), ("adamw", 2)])
def test_an_optimizer_keeps_what_its_own_code_keeps(name: str, copies: int) -> None:
    """SGD keeps nothing, AdamW two copies of the parameters; its multi-tensor step makes a third for a while."""
    parameters = [nn.Parameter(torch.empty(100, 10)), nn.Parameter(torch.empty(7))]
    kept = optimizer_memory(name, parameters)
    assert (kept.name, kept.state) == ({"SGD": "SGD", "adamw": "AdamW"}[name], copies * 4 * 1007)
    assert kept.temporary == (4 * 1007 if copies else 0)


@pytest.mark.parametrize("asked", [torch.optim.AdamW, lambda own: torch.optim.AdamW([{"params": own}])], ids=["class", "made"])
def test_a_class_and_a_made_optimizer_take_what_the_name_takes(asked: Any) -> None:
    """All take the multi-tensor form, as on a GPU; one that is told to take single tensors does."""
    parameters = [nn.Parameter(torch.empty(100, 10)), nn.Parameter(torch.empty(7))]
    assert optimizer_memory(asked, parameters) == optimizer_memory("adamw", parameters)
    single = optimizer_memory(lambda own: torch.optim.AdamW(own, foreach=False), parameters)
    assert single.temporary != optimizer_memory("adamw", parameters).temporary


def test_each_optimizer_that_is_offered_can_step() -> None:
    """The names that an error offers give figures; the other classes of torch.optim are refused with torch's reason."""
    parameters = [nn.Parameter(torch.empty(10, 10))]
    with pytest.raises(InputError, match="valid are") as refused:
        optimizer_memory("nothing like it", parameters)
    offered = re.findall("'([a-z]+)'", str(refused.value).partition("valid are")[2])
    assert "adamw" in offered
    for name in offered:
        assert optimizer_memory(name, parameters).name.lower() == name
    for asked in ("adafactor", "asgd", "lbfgs", "sparseadam", lambda own: torch.optim.AdamW(own, fused=True)):
        with pytest.raises(InputError, match=says("step", "data", "'adamw'", "optimizer=")):
            optimizer_memory(asked, parameters)


def test_an_optimizer_is_refused_before_anything_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """No region is traced for an optimizer that cannot step."""
    monkeypatch.setattr("explorer.studies.fitting.fits.trace", lambda *args, **kwargs: pytest.fail("a region was traced"))
    with pytest.raises(InputError, match="Adafactor"):
        explorer.fits(nn.Linear(2, 2), torch.ones(2, 2), train=True, optimizer="adafactor")


class Own(nn.Module):
    """A module of one's own without blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 16, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


@pytest.mark.compile
def test_a_module_of_ones_own_is_one_region(own: Fit) -> None:
    """A module without repeated blocks, with its inputs, is one region; its memory is what it is given, computes and holds."""
    assert [row["region"] for row in own.regions] == ["the model"]
    assert (own.bytes_of("weights"), own.bytes_of("inputs"), own.bytes_of("activations")) == (32 * 16 * 4, 8 * 32 * 4, 8 * 16 * 4)


@pytest.mark.compile
def test_a_module_s_own_types_and_sizes_are_in_the_title(own: Fit) -> None:
    """A dtype is that of the module's weights, and none can be asked for beside it."""
    assert own.title == "Own, weights of float32, called with float32 [8, 32]"
    with pytest.raises(InputError, match=says("dtype=", "batch=", "config", ".to(torch.bfloat16)")):
        explorer.fits(Own(), torch.ones(8, 32), dtype="float32", batch=4)


class Counted(Own):
    """A module that counts its calls, and may look at a value."""

    def __init__(self, branches: bool) -> None:
        super().__init__()
        self.calls, self.branches = 0, branches

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.branches and x.max() > 1:
            x = x.tanh()
        return super().forward(x)


class Counting(Own):
    """A module with a tensor whose size only the values tell."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        counts = torch.bincount(x.flatten().long())
        return super().forward(x) * counts.sum()


@pytest.mark.compile
def test_a_module_that_counts_its_calls_fits_like_one_that_does_not(own: Fit) -> None:
    """Dynamo then reads its parameters by another way. A line that needs values is named."""
    assert explorer.fits(Counted(False), torch.ones(8, 32)).bytes_of("weights") == own.bytes_of("weights")
    with pytest.raises(InputError, match=says("test_fits.py", "x.max() > 1", "values", "torch.where")):
        explorer.fits(Counted(True), torch.ones(8, 32))
    with pytest.raises(InputError, match=says("test_fits.py", "torch.bincount(", "values", "index_add")):
        explorer.fits(Counting(), torch.ones(8, 32))


class Leaky(Own):
    """A module that saves a tensor of its own for its backward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        return torch.where(y > 0, y * y, torch.zeros((), dtype=y.dtype, device=y.device))


@pytest.mark.compile
def test_a_tensor_that_the_module_makes_may_meet_its_gradients() -> None:
    """The backward has a real tensor, made of no input, beside fake ones."""
    fit = explorer.fits(Leaky(), torch.ones(8, 32), train=True)
    assert fit.bytes_of("gradients") >= 32 * 16 * 4


@pytest.mark.compile
def test_a_model_that_skips_layers_at_random_keeps_them_all() -> None:
    """A step of OPT with LayerDrop runs each layer, forward and backward, and that is said."""
    fields = {**WIDTHS, "ffn_dim": 16, "max_position_embeddings": 8, "word_embed_proj_dim": 8}
    skipping = explorer.fits("OPTConfig", train=True, layerdrop=0.5, **fields)
    assert [row["calls"] for row in skipping.regions if "layers" in row["region"]] == [WIDTHS["num_hidden_layers"]]
    assert NO_LAYERDROP in skipping.left_out
    assert NO_LAYERDROP not in left_out(True, None, None, 1)


class Wide(nn.Module):
    """A block that saves four times its input."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))  # type: ignore[no-any-return]


@pytest.mark.compile
def test_a_smaller_budget_saves_less_and_computes_more_again() -> None:
    """Each budget is a step compiled with it: the peak falls as the recomputed time rises, and torch's setting is back after."""
    before = functorch.activation_memory_budget
    fit = explorer.fits(nn.Sequential(Wide(), Wide(), Wide()), torch.ones(4096, 32, requires_grad=True), train=True)
    budgets = fit.budgets((1, 0))
    least, most = budgets.table
    assert (least["budget"], most["budget"]) == (0, 1)
    assert (most["peak_bytes"], most["recomputed_seconds"]) == (fit.peak_bytes, 0)
    assert least["peak_bytes"] < most["peak_bytes"] and least["recomputed_seconds"] > 0
    assert [one.peak_bytes for one in budgets.fits] == [least["peak_bytes"], most["peak_bytes"]]
    assert functorch.activation_memory_budget == before
    drawn = budgets._repr_html_()
    assert drawn.count("<circle") == 2 and "budget 0:" in drawn and "activation_memory_budget" in drawn
    for shares in ((), (1.5,), (True,), ("half",)):
        with pytest.raises(InputError, match=says("fit.budgets")):
            fit.budgets(shares)  # type: ignore[arg-type]


@pytest.mark.compile
def test_layers_that_are_checkpointed_save_their_inputs_alone() -> None:
    """Behind each layer's forward its hidden states alone stay, in bfloat16, and its backward computes its products again."""
    fields = {**WIDTHS, "intermediate_size": 16}
    fit = explorer.fits("LlamaConfig", sequence=16, train=True, activation_checkpointing=True, **fields)
    after = [row["after"] for row in fit.timeline if row["graph"] == "forward" and "layers" in row["region"]]
    assert after[1] - after[0] == 16 * WIDTHS["hidden_size"] * 2
    assert "activation checkpointing" in fit.title


@pytest.mark.compile
def test_a_budget_is_for_training(own: Fit) -> None:
    """A call without a backward saves nothing."""
    with pytest.raises(InputError, match=says("training", "train=True")):
        own.budgets()


class WithoutInputs(Own):
    """A module that is called with nothing."""

    def forward(self) -> torch.Tensor:  # type: ignore[override]
        return torch.relu(self.linear.weight)


@pytest.mark.compile
def test_a_module_may_have_no_inputs() -> None:
    """A module whose forward takes nothing is called with nothing."""
    fit = explorer.fits(WithoutInputs())
    assert (fit.bytes_of("weights"), fit.bytes_of("inputs"), fit.bytes_of("activations")) == (32 * 16 * 4, 0, 32 * 16 * 4)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("GPT2Config", {"n_positions": 8, **TINY}),
        ("OPTConfig", {**WIDTHS, "ffn_dim": 16, "max_position_embeddings": 8, "word_embed_proj_dim": 8}),
        ("RobertaConfig", {**WIDTHS, "intermediate_size": 16, "max_position_embeddings": 10, "is_decoder": True}),
        ("LlamaConfig", {**WIDTHS, "intermediate_size": 16, "max_position_embeddings": 8}),
    ],
)
def test_the_positions_that_a_model_has_are_those_that_it_runs_with(name: str, fields: dict[str, Any]) -> None:
    """Where the real model fails on one token more, that is refused, and what it runs with is not."""
    config = models.config_of(name, fields)
    model = AutoModelForCausalLM.from_config(config).eval()
    assert set(models.learned_positions(model).values()) == (set() if name == "LlamaConfig" else {8})
    for length in (8, 9):
        try:
            model(input_ids=torch.full((1, length), 5))
        except (IndexError, RuntimeError):
            with pytest.raises(InputError, match=says("sequence=9", "8 positions", type(model).__name__)):
                models.check_positions(model, length)
            assert length == 9
        else:
            models.check_positions(model, length)
            assert length == 8 or name == "LlamaConfig"


@pytest.mark.parametrize("name", ["LlamaConfig", "Gemma3Config", "MistralConfig", "DeepseekV3Config", "MambaConfig"])
def test_the_cache_of_a_config_is_what_transformers_keeps_or_unknown(name: str) -> None:
    """Keys and values are read from the text's config; layers that keep a window or a state are not guessed."""
    text = {**WIDTHS, "intermediate_size": 16, "head_dim": 4, "num_key_value_heads": 1}
    fields = {"text_config": {**text, "sliding_window": 64}} if name == "Gemma3Config" else {}
    config = models.config_of(name, fields or (text if name in ("LlamaConfig", "MistralConfig") else {}))
    if name in ("DeepseekV3Config", "MambaConfig"):
        assert cache_bytes(config, 2, 6, 4) is None
        return
    model = AutoModelForCausalLM.from_config(config.get_text_config()).eval()
    kept = model(input_ids=torch.full((2, 6), 5), use_cache=True).past_key_values
    assert cache_bytes(config, 2, 6, 4) == sum(t.nbytes for layer in kept.layers for t in (layer.keys, layer.values))
    window = config.get_text_config().sliding_window if name != "LlamaConfig" else None
    assert window is None or cache_bytes(config, 2, window + 1, 4) is None
    assert any(not untold(words, "cache", "size", "config") for words in left_out(False, None, None, 1))


def test_a_config_whose_layers_differ_in_size_has_an_unknown_cache() -> None:
    """transformers raises for a field that differs from layer to layer, and fits goes on without the cache's size."""

    class Differing:
        num_hidden_layers, num_attention_heads = 2, 4

        def get_text_config(self, decoder: bool) -> Differing:
            return self

        @property
        def head_dim(self) -> int:
            raise RuntimeError("'head_dim' may vary across layers")

    assert cache_bytes(Differing(), 2, 6, 4) is None


def test_a_config_that_transformers_itself_cannot_build_is_refused_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names transformers' reason and the line that raised it."""

    def make(*args: object, **kwargs: object) -> None:
        raise AttributeError("config has no attribute 'rope_theta'")

    monkeypatch.setattr(AutoModelForCausalLM, "from_config", make)
    with pytest.raises(InputError, match=says("rope_theta", "test_fits.py:")):
        models.model_of(LlamaConfig(**SMALL), "bfloat16", False)


@pytest.mark.compile
def test_an_attention_that_stays_whole_keeps_its_whole_cache(prefill: Fit) -> None:
    """OPT counts all heads itself: each of two ranks computes all keys and values, and would keep all of them."""
    fields = {**WIDTHS, "ffn_dim": 16, "max_position_embeddings": 8, "word_embed_proj_dim": 8}
    fit = explorer.fits("OPTConfig", world=2, sequence=8, **{**fields, "num_hidden_layers": 1})
    assert any(name.endswith("self_attn.k_proj") for name in fit.unsplit)
    assert any(not untold(words, "cache", f"{2 * 8 * 8 * 2} B") for words in fit.left_out)
    assert any(not untold(words, "cache", f"{2 * 2 * 16 * 8 * 2 // 2} B") for words in prefill.left_out)


class Feed(nn.Module):
    """A feed-forward part two modules deep, beside an attention that keeps its number of heads."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.attention = nn.Module(), nn.MultiheadAttention(16, 2, batch_first=True)
        self.inner.up_proj, self.inner.down_proj = nn.Linear(16, 32, bias=False), nn.Linear(32, 16, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.attention(x, x, x, need_weights=False)[0]
        return self.inner.down_proj(torch.relu(self.inner.up_proj(x)))  # type: ignore[no-any-return, operator]


@pytest.mark.compile
@pytest.mark.parametrize("plan", [None, {"*.up_proj": "colwise", "*.down_proj": "rowwise"}], ids=["none", "own"])
def test_a_star_in_front_stands_for_any_depth(plan: dict[str, str] | None) -> None:
    """Each rank has half of the products, however deep they are; an attention that counts all heads stays whole."""
    fit = explorer.fits(nn.Sequential(Feed()), torch.ones(1, 4, 16), world=2, plan=plan)
    sizes = {row["module"]: row["bytes"] for row in fit.memory if row["what"] == "weights"}
    assert sizes["*.inner.up_proj"] == sizes["*.inner.down_proj"] == 16 * 32 * 4 // 2
    assert sizes["*.attention.out_proj"] == (16 * 16 + 16) * 4


@pytest.mark.parametrize(
    ("given", "arguments", "facts"),
    [
        ("LlamaConfg", {}, ("'LlamaConfg'", "'LlamaConfig'")),
        ("LlamaConfig", {"hidden_sise": 64}, ("'hidden_sise'", "'hidden_size'")),
        ("LlamaConfig", {"gpus": 8, "batch_size": 2}, ("gpus=", "world=", "batch_size=", "batch=")),
        ("LlamaConfig", {"optimizer": "adamw"}, ("optimizer=", "train=True")),
        ("LlamaConfig", {"activation_checkpointing": True}, ("activation_checkpointing=", "train=True")),
        ("LlamaConfig", {"gradient_checkpointing": True}, ("activation_checkpointing=",)),
        (nn.Linear(2, 2), {"activation_checkpointing": True, "train": True}, ("for a config", "torch.utils.checkpoint")),
        ("LlamaConfig", {"sequence": 0}, ("sequence", "1", "0")),
        ("LlamaConfig", {"dtype": "bf17"}, ("'bf17'", "'bfloat16'")),
        ("LlamaConfig", {"world": 3, **SMALL}, ("num_attention_heads=4", "3 ranks")),
        ("LlamaConfig", {"world": 2, "plan": {"*.up_proj": "sideways"}, **SMALL}, ("sideways", "colwise", "plan=")),
        ("LlamaConfig", {"world": 2, "plan": {"model.layers.*.mlp.upproj": "colwise"}, **SMALL}, ("upproj",)),
        ("GPT2Config", {"world": 2, "sequence": 64, **TINY}, ("2 ranks", "plan=", "colwise")),
        ("LlamaConfig", {"world": 2, "plan": {"model.layers.*.input_layernorm": "colwise"}, **SMALL}, ("plan", "split")),
        (3, {}, ("config.json", "torch.nn.Module", "its inputs", "int")),
        (nn.Linear(2, 2), {}, ("Linear cannot be called so", "'input'", "explorer.fits(linear, x)")),
        (nn.Linear(2, 2), {"inputs": 1}, ("inputs=", "explorer.fits(model, x)")),
        ("missing/config.json", {}, ("read", "missing/config.json")),
        ("meta-llama/Llama-3-70B", {}, ("'meta-llama/Llama-3-70B'", "downloads", "config.json")),
        ("LlamaConfig", {"dtype": "float8_e4m3fn"}, ("'float8_e4m3fn'", "'bfloat16', 'float16', 'float32', 'float64'")),
        ("LlamaConfig", {**SMALL, "num_attention_heads": 0}, ("num_attention_heads", "1", "0")),
        ("LlamaConfig", {**SMALL, "hidden_size": -2}, ("hidden_size", "1", "-2")),
        ("GPT2Config", {"n_head": 0}, ("n_head", "1", "0")),
        (
            "LlamaConfig",
            {**SMALL, "hidden_size": 100, "num_attention_heads": 16},
            ("not a multiple of the number of attention heads",),
        ),
        ("LlamaConfig", {"world": 2, "plan": {"*.down_proj": "rowwise"}, **SMALL}, ("layers", "split", "plan=")),
        ("GPT2Config", {"sequence": 9, "n_positions": 8, **TINY}, ("sequence=9", "8 positions", "transformer.wpe")),
    ],
)
def test_what_cannot_be_is_refused(given: Any, arguments: dict[str, Any], facts: tuple[str, ...]) -> None:
    """An error says what is wrong, and what there is."""
    with pytest.raises(InputError, match=says(*facts)):
        explorer.fits(given, **arguments)


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({"hidden_size": 100, "num_attention_heads": 16}, ("not a multiple of the number of attention heads",)),
        ({"hidden_size": 0}, ("hidden_size", "1", "0")),
    ],
)
def test_a_file_and_a_config_are_refused_for_their_sizes_too(
    fields: dict[str, int], facts: tuple[str, ...], tmp_path: Path
) -> None:
    """As the fields of a class are: those of a config.json, and those given over a config."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model_type": "llama", **SMALL, **fields}))
    with pytest.raises(InputError, match=says(*facts)):
        explorer.fits(file)
    with pytest.raises(InputError, match=says(*facts)):
        explorer.fits(LlamaConfig(**SMALL), **fields)


@pytest.mark.compile
def test_norms_that_each_rank_has_whole_are_no_error() -> None:
    """Qwen3's own plan has its norms of heads replicated: they are whole, products are split, and what is left out is said."""
    fields = {**SMALL, "num_hidden_layers": 1, "head_dim": 16}
    half = explorer.fits("Qwen3Config", world=2, batch=1, sequence=8, train=True, **fields)
    sizes = {row["module"]: row["bytes"] for row in half.memory if row["what"] == "weights"}
    model = models.model_of(models.config_of("Qwen3Config", fields), "bfloat16", True)
    whole = {models.pattern_of(name.rpartition(".")[0]): models.bytes_of(tensor) for name, tensor in model.named_parameters()}
    for module, size in whole.items():
        split = module.endswith(("_proj", "lm_head", "embed_tokens"))
        assert sizes[module] == (size // 2 if split else size), module
    assert any(not untold(text, "time", "gradients", "ranks") for text in half.left_out)
    assert not any("ranks" in text for text in left_out(True, None, None, 1))


@pytest.mark.compile
def test_the_command_prints_each_target(
    prefill: Fit, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`explorer fits` reads a config.json, takes fields by --set, and with --json prints a list with one entry per target."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llama", **SMALL, "vocab_size": 512}))
    given = {"batch": 1, "sequence": 8}
    changed = {"vocab_size": 128, "num_hidden_layers": 1}
    asked: list[tuple[Any, dict[str, Any]]] = []

    def fit(model: Any, *, target: str, **arguments: Any) -> Fit:
        """Note what is asked, and answer with the figures that are known."""
        asked.append((model, arguments))
        return replace(prefill, target=Target.parse(target))

    monkeypatch.setattr(explorer, "fits", fit)
    command = ["fits", str(path), *(word for field, n in changed.items() for word in ("--set", f"{field}={n}"))]
    assert main([*command, "--batch", "1", "--sequence", "8", "--target", "h100", "--target", "b200", "--json"]) == 0
    printed = json.loads(capfd.readouterr().out)
    assert [one["target"] for one in printed] == ["h100", "b200"]
    assert all(one["fits"] and one["peak_bytes"] == sum(row["bytes"] for row in one["memory"]) for one in printed)
    assert [one["parameters"] for one in printed] == [prefill.parameters] * 2
    assert [model for model, _ in asked] == [str(path)] * 2
    assert all({**arguments, **given, **changed} == arguments for _, arguments in asked)
    model = models.model_of(models.config_of(str(path), changed), "bfloat16", False)
    parameters = 2 * 128 * 64 + 64 + 2 * 64 + 64 * (64 + 32 + 32 + 64) + 3 * 64 * 128
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def test_the_command_refuses_what_it_cannot_read(capsys: pytest.CaptureFixture[str]) -> None:
    """A field without a value is an error in one line, with status 2."""
    assert main(["fits", "LlamaConfig", "--set", "vocab_size"]) == 2
    assert "NAME=VALUE" in capsys.readouterr().err
