"""Counters of Nsight Compute: reports that are read in, joined with the SASS of a trace, and carried up to the program.

`report.py` reads what `ncu` prints as CSV, `joined.py` finds each kernel and instruction in the trace, `carried.py` carries the
counts up the links, to PTX, Triton, FX nodes, modules and user lines.
"""
