"""Standalone programs made of a trace: one kernel, or the output code of a whole program, with inputs, a check and timing."""
