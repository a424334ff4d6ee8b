"""Drift: by which line a result moves away from float64, in eager mode and compiled, and what brings that about.

The errors of eager's operators (`eager_errors.py`) and of what the kernels write (`kernel_errors.py`), by line (`lines.py`); what
explains them, each proved by a run with it switched (`line_causes.py`, `compiler_causes.py`); whether a second run and a batch of
one give the same bits (`same_bits.py`); and the result (`drift.py`).
"""
