"""Triton kernels and operators computed on CPU tensors."""
