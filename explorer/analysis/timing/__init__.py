"""Times: profiles that are read in, and traces that Perfetto reads.

Times: profiles that are read in (`sources.py`, `timeline.py`) and joined with the kernels and library calls of a trace
(`runs.py`, `launch_names.py`, `joined.py`, `run_times.py`); the roofline; the file for Perfetto.
"""
