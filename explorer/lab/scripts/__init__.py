"""Standalone programs made of a trace: one kernel, or the output code of a whole program, with inputs, a check and timing.

Standalone programs, which have nothing of explorer's: one kernel with the arguments of a launch (`kernel_script.py`, with
what eager computes in its place from `reference.py`), or the output code of each graph (`model_script.py`); `harness.py` is
the text that each ends with, which makes inputs, judges and times.
"""
