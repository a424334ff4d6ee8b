"""The forms of a kernel of a recording: made as those of a trace are, while nothing that needs the call can be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import explorer
from explorer.errors import LiveError
from tests.facts import says

pytestmark = pytest.mark.compile


def program(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * 2).sum(-1)


def recorded(target: str) -> explorer.Trace:
    torch._dynamo.reset()
    with explorer.record(target, fresh=True) as recording:
        torch.compile(program)(torch.ones(8, 64))
    return recording.trace


def test_a_recorded_cpp_kernel_has_its_assembly() -> None:
    """`text` and `attach` make it with its links; a check says that it needs a trace."""
    trace = recorded("cpu")
    (kernel,) = trace.kernels
    assert kernel.stages == ("kernel", "assembly") and "ret" in kernel.text("assembly")
    attached = trace.attach("assembly")
    assert attached.find("assembly") and any(":assembly:" in link.source for link in attached.links)
    assert not trace.live
    with pytest.raises(LiveError, match=says("record", "explorer.trace")):
        trace.check()


def test_a_recorded_triton_kernel_has_its_machine_code(tmp_path: Path) -> None:
    """SASS, the binary and the MLIR passes are made in the process that recorded; a loaded trace has its texts."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    trace = recorded("h100")
    (kernel,) = trace.kernels
    assert kernel.stages[-1] == "sass" and "EXIT" in kernel.text("sass")
    assert kernel.binary().startswith(b"\x7fELF") and len(kernel.passes()) > 10
    trace.save(tmp_path / "t.json.gz")
    loaded = explorer.load(tmp_path / "t.json.gz")
    assert loaded == trace and loaded.kernels[0].stages[-1] == "ptx"
    with pytest.raises(LiveError, match=says("loaded")):
        loaded.kernels[0].text("sass")
