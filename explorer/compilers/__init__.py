"""The compilers that torch.compile can hand a graph to."""
