"""Run Triton kernels on CPU tensors, and operators with varied rounding or in float64.

Triton kernels on CPU tensors, many programs at once; a function's operators in float64.
"""
