"""The only room that names torch's private modules or triton's; it imports them inside functions."""
