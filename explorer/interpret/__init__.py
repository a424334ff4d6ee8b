"""Run Triton kernels on CPU tensors, and operators with varied rounding or in float64."""
