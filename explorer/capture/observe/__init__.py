"""What observes a compile: the only way in which torch and triton are looked into.

The probes, which observe every compile: one file for each part of the compiler; `probes.py` has `PROBES`, the written-out
tuple of them.

`context.py`: the probe that says where a compile is: frame, graph, round of passes, graph inside a graph.

`versions.py`: the only file that asks which torch, triton or Python it is.

`patch.py`: observe a function through one replacement that all observers share; replace an attribute for a while; both
under the guard that lets torch's own function answer where explorer's part fails, and only for the thread that asks.

`uncompiled.py`: run a program in eager mode, also the parts that it compiles itself.

`lowering.py`, `conditions.py`: how each FX node was lowered; the conditions of torch's code under which a call was reached.

`kernel_lines.py`, `scheduler.py`, `work.py`, `requests.py`: which FX node each line of a kernel computes; the scheduler's
verdicts (noted in `scheduler_log.py`, `refusals.py`, `realized.py`); what its nodes move and compute (`bytes_moved.py`,
`operators.py`, `loop_operations.py`, `distinct_operations.py`); verdicts changed on request.

`library_memory.py`: the scratch memory of library calls on the CPU: each runs once more, alone, when the recording is first
read.
"""
