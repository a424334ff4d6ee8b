"""Trace files: saved, loaded, and held to their format."""
