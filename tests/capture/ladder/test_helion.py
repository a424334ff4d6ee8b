"""A kernel that Helion wrote is compiled from its source and its call, without Helion and without a GPU."""

from __future__ import annotations

import pytest

from explorer.capture.ladder.helion import lower_with_call
from explorer.errors import InputError
from explorer.reference.gpus.figures import Target
from explorer.stages.inductor.helion import with_call
from tests.stages.inductor.test_helion import KERNEL

pytest.importorskip("triton", reason="triton is not installed")

H100 = Target.parse("h100")
NAME = "triton_unk_fused_sin_1"
#: The source, without its import of Helion's own launcher.
SOURCE = KERNEL.replace("from helion.runtime import default_launcher as _default_launcher", "_default_launcher = None")
CALL = "(torch.empty_strided((128,), (1,), dtype=torch.{}, device='meta'), ) * 2"


def test_the_types_the_options_and_the_grid_are_those_of_the_launch() -> None:
    """The function of the host is called with tensors that have a type and no data; each type gives another kernel."""
    lowered = lower_with_call(with_call(SOURCE, CALL.format("float32")), NAME, H100)
    assert "!tt.ptr<f32>" in lowered.ttir and f'loc("{NAME}.py"' in lowered.ttir
    assert (lowered.name, lowered.file, lowered.first_line) == (NAME, f"{NAME}.py", 1)
    assert (lowered.arguments, lowered.grid) == (("x", "y"), ("4", "1", "1"))
    assert dict(lowered.config) == {"num_warps": 4, "num_stages": 1} and lowered.options["num_warps"] == 4
    assert "!tt.ptr<bf16>" in lower_with_call(with_call(SOURCE, CALL.format("bfloat16")), NAME, H100).ttir


def test_a_persistent_kernel_is_told_the_multiprocessors_of_the_target() -> None:
    """Its function of the host asks Helion, which would ask the device."""
    asked = "(helion.runtime.get_num_sm(torch.device('cuda:0'), reserved_sms=32),)"
    source = f"helion = None\n{SOURCE.replace('(4,)', asked)}"
    assert lower_with_call(with_call(source, CALL.format("float32")), NAME, H100).grid == ("100", "1", "1")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (SOURCE, "its source does not say what it is called with: change the Helion function"),
        (with_call(SOURCE, "(1, 2)"), "cannot be called without a GPU: TypeError: empty_like"),
        (with_call(SOURCE, "()"), "missing 2 required"),
        (with_call(SOURCE.replace("    _launcher(_helion", "    x.size(_helion"), CALL.format("float32")), "cannot be called"),
        (
            with_call(SOURCE.replace("_launcher(_helion", "0 and _launcher(_helion"), CALL.format("float32")),
            "launches 0 Triton kernels",
        ),
    ],
    ids=["no call", "other arguments", "too few", "fails", "no launch"],
)
def test_a_call_that_cannot_be_made_is_said(source: str, says: str) -> None:
    """What the program's code raises is in the message, or what is to be done."""
    with pytest.raises(InputError, match=says):
        lower_with_call(source, NAME, H100)
