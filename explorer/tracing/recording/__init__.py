"""Record a compile, and replay what was recorded into a Trace.

`trace.py`, `record.py` and `handwritten.py` have `trace`, `record` and `trace_kernel`, `display.py` has `show`;
`arguments.py` checks what they are given; `recorder.py` collects events, `kernels.py` the forms of Triton kernels;
`finish.py` makes the Trace, `compile_failures.py` and `changes.py` its Failures for compiles that failed and for requests
that did not come true.
"""
