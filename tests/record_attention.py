"""Record which attention operator torch's own CUDA build takes on GPUs that need not be here, for `test_attention.py`.

    python tests/record_attention.py        with a CUDA build of the release to be recorded, and CUDA's headers

The build's own code decides; a stand-in for CUDA's runtime, loaded before it, says what GPU there is and starts nothing.
cuDNN is the one that the build brings. AMD's and Intel's builds are others, so their GPUs are not recorded.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

DATA = Path(__file__).with_name("data")
#: The runtime's and the driver's functions that are called on the way to the choice.
RUNTIME = """
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
static int capability(void) { return atoi(getenv("CAPABILITY")); }
cudaError_t cudaGetDeviceCount(int* n) { *n = 1; return cudaSuccess; }
cudaError_t cudaGetDevice(int* n) { *n = 0; return cudaSuccess; }
cudaError_t cudaSetDevice(int n) { return cudaSuccess; }
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* n) { *n = 13000; return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus* c) { *c = 0; return cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* a, int* b) { *a = 0; *b = -5; return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* p, int n) {
  memset(p, 0, sizeof *p);
  p->major = capability() / 10; p->minor = capability() % 10;
  p->multiProcessorCount = 100; p->warpSize = 32; p->totalGlobalMem = 1ull << 36;
  return cudaSuccess;
}
"""
DRIVER = "int cuDevicePrimaryCtxGetState(int d, unsigned* flags, int* active) { *flags = 0; *active = 1; return 0; }"


def build(folder: Path) -> dict[str, str]:
    """The stand-ins, as the environment that has them loaded."""
    headers = [*Path(torch.__file__).parent.parent.glob("nvidia/*/include"), Path("/usr/local/cuda/include")]
    for name, text in (("runtime.so", RUNTIME), ("libcuda.so.1", DRIVER)):
        includes = [f"-I{path}" for path in headers]
        command = ["gcc", "-shared", "-fPIC", "-w", "-xc", "-", "-o", str(folder / name), *includes]
        subprocess.run(command, input=text, text=True, check=True)
    return {**os.environ, "LD_PRELOAD": str(folder / "runtime.so"), "LD_LIBRARY_PATH": str(folder)}


def decided() -> str:
    """The letters of all cases on the GPU that the stand-in says."""
    from attention_cases import cases
    from attention_cases import decided as letters
    from torch._subclasses import fake_tensor

    fake_tensor.init_gpu_context = lambda *args: None
    return letters(cases())


def main() -> None:
    """Record each GPU in a process of its own: torch asks for the device once."""
    from attention_cases import GPUS

    if sys.argv[1:] == ["decide"]:
        print(decided())
        return
    release = ".".join(torch.__version__.split(".")[:2])
    made = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
    with tempfile.TemporaryDirectory() as folder:
        environment = build(Path(folder))
        for name, capability in GPUS.items():
            own = {**environment, "CAPABILITY": str(capability)}
            done = subprocess.run([sys.executable, __file__, "decide"], env=own, capture_output=True, text=True, check=True)
            made[name] = done.stdout.split()[-1]
    path = DATA / f"attention-choice-torch{release}.json.gz"
    path.write_bytes(gzip.compress(json.dumps(made).encode(), 9, mtime=0))
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
