"""Logs of jobs that ran, read into traces: those of `TORCH_TRACE`. Nothing of torch is imported."""
