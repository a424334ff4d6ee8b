"""The stacks of `stacks.py`: small programs of real libraries, with random weights made from configs.

A builder imports its library and makes the model; what it returns compiles and runs, and gives the tensors to compare.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

#: Compiles and runs, and returns tensors.
Program = Callable[[], Any]


class Stack(NamedTuple):
    """A program and what it needs."""

    build: Callable[[], Program]
    libraries: tuple[str, ...] = ()
    cpu_only: str = ""  # why the program cannot be compiled for a GPU you don't have

    @property
    def missing(self) -> tuple[str, ...]:
        """The libraries that are not installed."""
        return tuple(name for name in self.libraries if find_spec(name) is None)


# torch alone -----------------------------------------------------------------------------------------------------------


def _layers() -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8))


def _mlp() -> Any:
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.act, self.norm, self.last = _layers()

        def forward(self, x: Any) -> Any:
            x = self.act(self.first(x))
            x = self.norm(x)
            return self.last(x)

    return Model()


def _trained(model: Any, *args: Any, loss: Callable[[Any], Any] = lambda out: out.square().mean()) -> Any:
    """Take two steps of a compiled model with SGD: the last loss and the parameters' gradients."""
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    compiled = torch.compile(model)
    for _ in range(2):
        optimizer.zero_grad()
        value = loss(compiled(*args))
        value.backward()
        optimizer.step()
    return value, [p.grad for p in model.parameters() if p.grad is not None]


def inference() -> Program:
    import torch

    model, x = _mlp().eval(), torch.randn(4, 16)

    def run() -> Any:
        with torch.no_grad():
            return torch.compile(model)(x)

    return run


def training() -> Program:
    import torch

    model, x = _mlp(), torch.randn(4, 16)
    return lambda: _trained(model, x)


def sequential() -> Program:
    """No line of the program is inside what is compiled: each is torch.nn's."""
    import torch

    model, x = _layers(), torch.randn(4, 16)
    return lambda: _trained(model, x)


def compiled_optimizer() -> Program:
    import torch

    model, x = _mlp(), torch.randn(4, 16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def run() -> Any:
        step = torch.compile(optimizer.step)
        for _ in range(2):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            step()
        return list(model.parameters())

    return run


def compiled_autograd() -> Program:
    import torch

    model, x = _mlp(), torch.randn(4, 16)

    def run() -> Any:
        with torch._dynamo.config.patch(compiled_autograd=True):

            @torch.compile
            def step(x: Any) -> Any:
                loss = model(x).square().mean()
                loss.backward()
                return loss

            return step(x), [p.grad for p in model.parameters()]

    return run


def graph_breaks() -> Program:
    import torch

    model, x = _mlp(), torch.randn(4, 16)

    @torch.compile
    def function(x: Any) -> Any:
        y = torch.sin(model(x))
        if y.sum().item() > 1e9:
            return y
        torch._dynamo.graph_break()
        return torch.softmax(y * 2, -1).cumsum(-1)

    return lambda: function(x)


def dynamic_shapes() -> Program:
    import torch

    model = _mlp()
    inputs = [torch.randn(rows, 16) for rows in (3, 5, 7)]

    def run() -> Any:
        compiled = torch.compile(model)
        with torch.no_grad():
            return [compiled(x) for x in inputs]

    return run


def flex_attention() -> Program:
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    query, key, value = (torch.randn(1, 2, 128, 16) for _ in range(3))
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 128, 128, device="cpu")

    def run() -> Any:
        with torch.no_grad():
            return torch.compile(flex_attention)(query, key, value, score_mod=lambda s, b, h, q, k: s * 0.5, block_mask=mask)

    return run


def functorch() -> Program:
    import torch

    model, x, y = _mlp(), torch.randn(4, 16), torch.randn(4, 8)
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        return (torch.func.functional_call(model, parameters, (x[None],))[0] - y).square().mean()

    def run() -> Any:
        compiled = torch.compile(torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0)))
        return list(compiled(parameters, x, y).values())

    return run


def autocast_checkpointed() -> Program:
    import torch
    from torch.utils.checkpoint import checkpoint

    model, x = _mlp(), torch.randn(4, 16)

    class Checkpointed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: Any) -> Any:
            with torch.autocast("cpu", torch.bfloat16):
                return checkpoint(self.inner, x, use_reentrant=False)

    return lambda: _trained(Checkpointed(), x, loss=lambda out: out.float().square().mean())


def standalone_pieces() -> Program:
    """Dynamo's graph is compiled by standalone_compile, and the artifact is kept for the next process, as in vLLM."""
    import torch

    model, x = _mlp().eval(), torch.randn(4, 16)
    kept = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"], "piece")

    def backend(graph: Any, inputs: Any) -> Any:
        if kept.exists():
            return torch._inductor.CompiledArtifact.load(path=str(kept), format="unpacked")
        made = torch._inductor.standalone_compile(graph, inputs, dynamic_shapes="from_graph", options={})
        made.save(path=str(kept), format="unpacked")
        return made

    def run() -> Any:
        with torch.no_grad():
            return torch.compile(model, backend=backend)(x)

    return run


def _at_module_level(x: Any, weight: Any) -> Any:
    y = (x @ weight).sin()
    return y.softmax(-1)


def precompiled() -> Program:
    """Dynamo's bytecode and guards are kept too, by torch._dynamo.config.caching_precompile."""
    import torch

    x, weight = torch.randn(4, 16), torch.randn(16, 8)

    def run() -> Any:
        with torch._dynamo.config.patch(caching_precompile=True):
            y = torch.compile(_at_module_level)(x, weight)
            torch.compiler.save_cache_artifacts()  # writes the package too
        return y

    return run


def ddp() -> Program:
    import torch
    import torch.distributed as dist

    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    model, x = torch.nn.parallel.DistributedDataParallel(_mlp()), torch.randn(4, 16)
    return lambda: _trained(model, x)


def aot_inductor() -> Program:
    import torch

    model, x = _mlp().eval(), torch.randn(4, 16)

    def run() -> Any:
        with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            program = torch.export.export(model, (x,))
            package = torch._inductor.aoti_compile_and_package(program, package_path=str(Path(folder) / "model.pt2"))
            return torch._inductor.aoti_load_package(package)(x)

    return run


# Libraries -------------------------------------------------------------------------------------------------------------


def generate() -> Program:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        max_position_embeddings=32, bos_token_id=1, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model, ids = LlamaForCausalLM(config).eval(), torch.randint(2, 64, (1, 5))

    def run() -> Any:
        model.forward = torch.compile(model.forward)
        return model.generate(ids, max_new_tokens=4, do_sample=False, cache_implementation="static")

    return run


def classifier() -> Program:
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    model = BertForSequenceClassification(BertConfig(vocab_size=64, max_position_embeddings=32, num_labels=3, **sizes))
    ids, mask, labels = torch.randint(2, 64, (2, 8)), torch.ones(2, 8, dtype=torch.long), torch.tensor([0, 2])
    return lambda: _trained(model, ids, mask, None, None, None, labels, loss=lambda out: out.loss)


def unet() -> Program:
    import torch
    from diffusers import UNet2DConditionModel

    blocks = {
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
    }
    model = UNet2DConditionModel(
        sample_size=8, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8, cross_attention_dim=16,
        attention_head_dim=4, **blocks,
    ).eval()  # fmt: skip
    sample, states = torch.randn(1, 4, 8, 8), torch.randn(1, 3, 16)

    def run() -> Any:
        with torch.no_grad():
            return torch.compile(model)(sample, torch.tensor(5), states).sample

    return run


def repeated_blocks() -> Program:
    """Each of the equal blocks of a diffusion transformer is compiled, once for all."""
    import torch
    from diffusers import FluxTransformer2DModel

    model = FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=2, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=(4, 4, 8),
    ).eval()  # fmt: skip
    inputs = {
        "hidden_states": torch.randn(1, 16, 4),
        "encoder_hidden_states": torch.randn(1, 6, 32),
        "pooled_projections": torch.randn(1, 32),
        "timestep": torch.tensor([0.5]),
        "img_ids": torch.zeros(16, 3),
        "txt_ids": torch.zeros(6, 3),
    }

    def run() -> Any:
        model.compile_repeated_blocks(fullgraph=True)
        with torch.no_grad():
            return model(**inputs).sample

    return run


def resnet() -> Program:
    import timm
    import torch

    model = timm.create_model("test_resnet", num_classes=4)
    x = torch.randn(2, 3, 32, 32)
    return lambda: _trained(model, x)


def vision_transformer() -> Program:
    import torch
    from timm.models.vision_transformer import VisionTransformer

    model = VisionTransformer(img_size=16, patch_size=8, embed_dim=32, depth=2, num_heads=2, num_classes=4)
    x = torch.randn(2, 3, 16, 16)
    return lambda: _trained(model, x)


def mobilenet() -> Program:
    import torch
    from torchvision.models import MobileNetV3
    from torchvision.models.mobilenetv3 import InvertedResidualConfig

    setting = [
        InvertedResidualConfig(16, 3, 16, 16, True, "RE", 2, 1, 1.0),
        InvertedResidualConfig(16, 3, 32, 24, False, "HS", 2, 1, 1.0),
    ]
    model, x = MobileNetV3(setting, last_channel=32, num_classes=4).eval(), torch.randn(1, 3, 32, 32)

    def run() -> Any:
        with torch.no_grad():
            return torch.compile(model)(x)

    return run


def graph_network() -> Program:
    import torch
    from torch_geometric.nn import GCN

    model = GCN(in_channels=8, hidden_channels=16, num_layers=2, out_channels=4)
    x, edges = torch.randn(6, 8), torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    return lambda: _trained(model, x, edges)


def lora() -> Program:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel

    base = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=1, n_head=2))
    model = get_peft_model(base, LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True))
    ids = torch.randint(2, 64, (2, 8))

    class WithLoss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, ids: Any) -> Any:
            return self.inner(input_ids=ids, labels=ids).loss

    return lambda: _trained(WithLoss(), ids, loss=lambda out: out)


def lightning_step() -> Program:
    import lightning
    import torch

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.inner = _mlp()

        def forward(self, x: Any) -> Any:
            return self.inner(x)

        def training_step(self, batch: Any, number: int) -> Any:
            return self(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    model = Model()
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 16)), batch_size=4)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}

    def run() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            lightning.Trainer(accelerator="cpu", devices=1, max_steps=2, default_root_dir=folder, **quiet).fit(
                torch.compile(model), data
            )
        return list(model.parameters())

    return run


def accelerate_step() -> Program:
    import torch
    from accelerate import Accelerator

    model, x = _mlp(), torch.randn(4, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    accelerator = Accelerator(cpu=True, dynamo_backend="inductor")

    def run() -> Any:
        prepared, stepped = accelerator.prepare(model, optimizer)
        for _ in range(2):
            stepped.zero_grad()
            loss = prepared(x).square().mean()
            accelerator.backward(loss)
            stepped.step()
        return loss, list(model.parameters())

    return run


def quantized() -> Program:
    import torch
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model, x = _mlp().eval(), torch.randn(4, 16)
    quantize_(model, Int8WeightOnlyConfig())

    def run() -> Any:
        with torch.no_grad():
            return torch.compile(model)(x)

    return run


#: Name → stack. Those of torch alone come first.
STACKS = {
    "inference": Stack(inference),
    "training": Stack(training),
    "sequential": Stack(sequential),
    "compiled-optimizer": Stack(compiled_optimizer),
    "compiled-autograd": Stack(compiled_autograd),
    "graph-breaks": Stack(graph_breaks),
    "dynamic-shapes": Stack(dynamic_shapes),
    "flex-attention": Stack(flex_attention),
    "functorch": Stack(functorch),
    "autocast-checkpointed": Stack(autocast_checkpointed),
    "standalone-pieces": Stack(standalone_pieces),
    "precompiled": Stack(precompiled),
    "ddp": Stack(ddp, cpu_only="gloo reduces the gradients on the CPU"),
    "aot-inductor": Stack(aot_inductor, cpu_only="the package is loaded and called"),
    "transformers-generate": Stack(generate, ("transformers",)),
    "transformers-classifier": Stack(classifier, ("transformers",)),
    "diffusers-unet": Stack(unet, ("diffusers",)),
    "diffusers-blocks": Stack(repeated_blocks, ("diffusers",)),
    "timm-resnet": Stack(resnet, ("timm",)),
    "timm-vit": Stack(vision_transformer, ("timm",)),
    "torchvision-mobilenet": Stack(mobilenet, ("torchvision",)),
    "geometric-gcn": Stack(graph_network, ("torch_geometric",)),
    "peft-lora": Stack(lora, ("peft", "transformers")),
    "lightning": Stack(lightning_step, ("lightning",)),
    "accelerate": Stack(accelerate_step, ("accelerate",)),
    "torchao-int8": Stack(quantized, ("torchao",)),
}
