"""Inductor for an absent GPU: a named one that is not attached."""
