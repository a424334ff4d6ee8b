"""What a compile came to, at a glance: the first thing that a trace says of itself. Pure.

What takes the time of a call, and what is worth a look: `titles.py` names what a launch computes, `launches.py` ranks the
launches of a call, `overview.py` puts these beside the flow from graph to kernels, the memory and the advice, and `text.py`
writes that for a terminal. `changed.py` puts the launches of several traces beside each other.
"""
