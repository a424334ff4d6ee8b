"""A stage, a compiler and a check for explorer."""
