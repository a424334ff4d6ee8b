"""The stages of Inductor."""
