"""Questions about a recorded compile: data in, values out."""
