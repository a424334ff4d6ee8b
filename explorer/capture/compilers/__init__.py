"""The compilers that torch.compile can hand a graph to.

What torch.compile can hand a graph to, and whether it runs here (`backend.py`, `catalogue.py`, `trials.py`); how a function
is compiled; a folder for each compiler other than Inductor, `COMPILERS` the written-out tuple of them.
"""
