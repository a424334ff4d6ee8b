"""Times: profiles that are read in, and traces that Perfetto reads."""
