"""What observes a compile: the only way in which torch and triton are looked into."""
