"""Inductor for an absent GPU: a named one that is not attached.

An absent GPU: torch's questions answered for one compile, Dynamo's graph handed to Inductor on that GPU, the program run on
the CPU in its place; `target.py`: what a trace can be made for, `cluster.py`: several of them, as one rank sees them,
`fake_sums.py`: what DDP needs of their fake process group.
"""
