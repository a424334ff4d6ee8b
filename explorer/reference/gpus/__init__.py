"""Figures of named GPUs, and how many blocks of a kernel fit on one.

The figures of named GPUs with their sources; how many blocks of a kernel fit, and what limits them.
"""
