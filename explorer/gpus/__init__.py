"""Figures of named GPUs, and how many blocks of a kernel fit on one."""
