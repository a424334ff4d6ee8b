"""This process: its ranks, its temporary files, progress, and stopping."""
