"""Whether a model fits on GPUs you don't have, and what bounds a call of it, by regional compilation."""
