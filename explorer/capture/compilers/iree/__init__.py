"""IREE: from the torch dialect of MLIR to a VMFB, in a child process, and its execution on the CPU."""
