"""Record a compile, and replay what was recorded into a Trace."""
