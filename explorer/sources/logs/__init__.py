"""Logs of jobs that ran, read into traces: those of `TORCH_TRACE`. Nothing of torch is imported.

Logs of jobs that ran, read as recordings: `torch_trace.py` reads the records of `TORCH_TRACE`, by their checksums, and
`events_of_log.py` makes the events of them that probes would have recorded; `scheduler_text.py` reads nodes from texts,
`quoted_source.py` the program as far as a log quotes it; `debug_folder.py` and `triton_log.py` read the folders of
`TORCH_COMPILE_DEBUG=1` and tritonparse's logs; `read.py` tells which a file is.
"""
