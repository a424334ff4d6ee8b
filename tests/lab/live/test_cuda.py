"""The forms of a kernel in CUDA C++, which nvcc makes."""

from __future__ import annotations

import pytest

from explorer.capture.absent.target import named_gpu
from explorer.capture.ladder import nvcc
from explorer.errors import InputError, LiveError
from explorer.lab.live import cuda
from explorer.model.values import Artifact
from explorer.stages import STAGES
from explorer.stages.cuda import CUDA_FORMS
from explorer.tracing.traced import Trace

pytest.importorskip("triton", reason="nvdisasm is in triton's wheel")
SOURCE = """extern "C" __global__ void doubled(float* x) {
  x[threadIdx.x] *= 2.0f;
}
"""


def kernel(source: str = SOURCE) -> Artifact:
    """A kernel in CUDA C++."""
    return Artifact("0/0:kernel:0", "kernel", "0/0", "inference", "Kernel doubled", "cuda", source, kernel="doubled")


def test_nvcc_makes_ptx_and_sass_for_a_gpu_that_is_not_there() -> None:
    """Both are for the trace's GPU and are texts of the kernel; instructions compute, directives do not."""
    if not nvcc.compiler():
        pytest.skip("nvcc is not here: pip install nvidia-cuda-nvcc, or put CUDA's on PATH")
    forms = cuda.forms(kernel(), "cuda_sass", named_gpu("h100"))
    assert tuple(forms) == CUDA_FORMS
    ptx, sass = forms.values()
    assert ".target sm_90a" in ptx.text and ".visible .entry doubled(" in ptx.text
    assert "EXIT" in sass.text and {form.kernel for form in forms.values()} == {"doubled"}
    kinds = {stage.name: stage.kinds for stage in STAGES}["cuda_ptx"]
    assert kinds is not None
    kind = dict(zip((line.strip() for line in ptx.lines), kinds(ptx), strict=True))
    assert kind[".target sm_90a"] == "directives" and kind["ret;"] == "prologue and epilogue"


def test_what_nvcc_refuses_is_said_in_its_words() -> None:
    """The error names the kernel and has the compiler's words, without the folder that it was compiled in."""
    if not nvcc.compiler():
        pytest.skip("nvcc is not here: pip install nvidia-cuda-nvcc, or put CUDA's on PATH")
    with pytest.raises(
        LiveError, match=r"^nvcc refused doubled:\n(?s:.*)curand_kernel.h(?s:.*)pip install nvidia-curand"
    ) as error:
        nvcc.ptx_and_cubin("doubled", "#error curand_kernel.h is not here\n", named_gpu("h100"))
    assert "/tmp/" not in str(error.value)


def test_without_nvcc_the_wheels_that_have_it_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for a form where nothing can make it reads what to install."""
    monkeypatch.setattr(nvcc, "compiler", lambda: "")
    with pytest.raises(LiveError, match=r"doubled is compiled by nvcc, which is not here: .*pip install nvidia-cuda-nvcc"):
        cuda.forms(kernel(), "cuda_ptx", named_gpu("h100"))


def test_ptx_and_sass_of_such_a_kernel_lead_to_the_names_they_have() -> None:
    """Those of Triton's ladder are not the names of what nvcc makes, and a loaded trace cannot make either."""
    (made,) = Trace(artifacts=(kernel(),), meta={"target": "h100"}).kernels
    for stage in ("ptx", "sass"):
        with pytest.raises(InputError, match=rf"is CUDA C\+\+: its {stage.upper()} is 'cuda_{stage}'"):
            made.text(stage)
    with pytest.raises(LiveError, match=r"CUDA C\+\+"):
        made.text("cuda_ptx")
