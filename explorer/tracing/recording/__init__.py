"""Record a compile, and replay what was recorded into a Trace.

`trace.py` has `trace` of a function, `handwritten.py` of a Triton kernel, `record.py` has `record`, `display.py` has `show`;
`recorder.py` observes a program and gathers its events, `kernels.py` the forms of Triton kernels;
`finish.py` makes the Trace, `compile_failures.py` and `changes.py` its Failures for compiles that failed and for requests
that did not come true.
"""
