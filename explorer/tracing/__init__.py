"""How a trace is made, and what it is: `recording` has `trace` and `record`, `traced` has `Trace` and `Kernel`.

`recording` puts the probes on, runs the program, and replays what they saw; `traced` is the frozen answer, which hands each
question to the group that knows it. It answers what a user may ask, and of what.
"""
