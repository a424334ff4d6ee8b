"""The public values: a Trace, its kernels, a choice of Inductor's, and a what-if, each its data with the verbs on it.

Trace, Kernel, Choice, WhatIf and the Comparison of several traces: the data and the verbs on it, each a line that calls a
question or what is live.
"""

from __future__ import annotations

from explorer.tracing.traced.kernel import Kernel, Kernels
from explorer.tracing.traced.trace import Trace, load, loads

__all__ = ["Kernel", "Kernels", "Trace", "load", "loads"]
