"""What torch.compile can hand a graph to."""
