"""Traces that were made elsewhere: files of explorer, logs of torch, and the ranks of a job.

`files` reads and writes traces, also those of older formats, `logs` reads TORCH_TRACE and debug folders, `ranks` compares the
processes of a job. Reading runs no code of the file. It answers what was compiled in another process.
"""
