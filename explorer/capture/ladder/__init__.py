"""The ladder: a Triton kernel compiled to machine code, in worker processes.

A Triton kernel down to machine code, in worker processes, so a crash of LLVM stays there.
"""
