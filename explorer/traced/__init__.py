"""The public values: a Trace, its kernels, a choice of Inductor's, and a what-if, each its data with the verbs on it."""

from __future__ import annotations

from explorer.traced.kernel import Kernel, Kernels
from explorer.traced.trace import Trace, load, loads

__all__ = ["Kernel", "Kernels", "Trace", "load", "loads"]
