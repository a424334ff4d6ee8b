"""The guard laboratory: call a compiled function in varied ways, and see what is compiled again and why.

The guard laboratory: `vary.py` has Vary, what a call has otherwise; `varied_call.py` makes that call; `session.py` calls one
compiled function again and again and says what Dynamo did; `failing.py` finds the guard that failed, `changes.py` compares
the code; `probe.py` has `probe`, `sliders.py` the widgets, `modes.py` has `compare_modes`.
"""
