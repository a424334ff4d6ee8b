"""XLA as a backend of torch.compile, through StableHLO: torch-mlir makes it of a graph, jaxlib's XLA compiles and runs it."""
