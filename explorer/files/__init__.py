"""Save and load trace files, and write the files of TORCH_COMPILE_DEBUG=1."""
