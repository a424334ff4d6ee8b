"""The ladder: a Triton kernel compiled to machine code, in worker processes."""
