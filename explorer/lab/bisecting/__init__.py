"""Bisection: which launch is off, what in the compiler brings it about, and that as a script and as marks in the view.

Which launch computes something else than its nodes (`judged.py`), what in the compiler brings that about (`causes.py`: traced
again with fewer lowerings, passes or decompositions), and the result (`bisection.py`); the launch alone (`case.py`), with
fewer numbers (`shrink.py`), as a script (`fault_script.py`, `to_script.py`), and as marks in the trace (`marks.py`).
"""
