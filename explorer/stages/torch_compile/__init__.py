"""The stages of a call of torch.compile as a whole."""
