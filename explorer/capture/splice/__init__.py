"""Inductor's wrappers as they are loaded: other kernels in place of theirs, and every launch with its arguments.

Inductor's wrappers as they are loaded: other kernels in place of theirs (`wrappers.py`, `definitions.py`), every launch with
its arguments (`launches.py`), each wrapper's call (`calls.py`); an edit of a kernel (`kernels.py`) or of a whole wrapper
(`wrapper_text.py`), tried in a process of its own (`trial.py`, `edit.py`), which `lab/live/editing.py` and
`wrapper_editing.py` put in place; configs timed (`tuning.py`), and the time of a launch predicted of its machine code
(`prediction.py`).
"""
