"""What only the process that made a trace can do: its result, running, checking, timing, compiling to assembly.

What needs the process that compiled: `protocol.py` has Live, with every verb, `function.py` and `kernel.py` implement it for
a function and for a hand-written kernel: result, run, check (`judge.py`: how near two tensors must be; `float64_reference.py`:
what the function gives in float64 and with its rounding varied; `check_rows.py`: the rows, and all else that makes one unequal),
sanitize (`sanitized.py`: what kernels read or write where they must not), benchmark, the times of single kernels
(`kernel_times.py`) and the peaks of the device (`peaks.py`), texts made on demand (`forms.py`), kernels under way
(`ladders.py`).
"""
