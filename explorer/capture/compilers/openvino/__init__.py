"""OpenVINO: its own backend of torch.compile, observed: what it partitions, compiles and runs, and what PyTorch runs for it."""
