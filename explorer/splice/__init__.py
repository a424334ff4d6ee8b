"""Inductor's wrappers as they are loaded: other kernels in place of theirs, and every launch with its arguments."""
