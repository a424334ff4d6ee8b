"""The ladder: a Triton kernel compiled to machine code, in worker processes.

A Triton kernel down to machine code, in worker processes that a crash of LLVM cannot leave.
"""
