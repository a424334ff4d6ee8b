"""This process: its ranks, its temporary files, progress, and stopping.

Its rank, what SIGTERM leaves of a rank (`sigterm.py`), temporary folders, which files it reads that others name
(`regular_files.py`, `gzipped.py`), how the processes it starts find modules (`children.py`, and `start.py`, which each of
them runs first) and how they end (`descendants.py`), progress (`under_way.py`: what the open views of a trace hear of a
verb), how a verb in another thread is stopped.
"""
