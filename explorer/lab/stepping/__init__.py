"""Step through the code that runs in place of the user's: Dynamo's bytecode, each FX graph, Inductor's wrapper.

The code that runs in place of the user's, from real files in which a debugger stops: what a compile makes to run, each where
it is called (`capture.py`), files of bytecode (`line_table.py`, `decompiled_code.py`) and of graphs (`graph_file.py`), a run
of them (`session.py`), pdb (`debugger.py`), where JupyterLab's debugger finds them (`kernel_sources.py`), the value of each
node (`node_values.py`), and of each argument of a launch (`launch_values.py`); each step of Dynamo's symbolic execution
(`symbolic.py`).
"""
