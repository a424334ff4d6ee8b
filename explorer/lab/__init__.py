"""What needs the process that compiled: run, edit, time, search, step.

`live` has the verbs of a trace whose function can still be called, `scripts` writes a kernel or graph as a program of its own,
`bisecting` searches for what made a result wrong, `drifting` for what moves it away from float64, `stepping` runs a compiled
function line by line. `scripts` and `stepping` may
name torch's insides, because what they write runs them.
"""
