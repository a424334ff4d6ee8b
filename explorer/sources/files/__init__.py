"""Save and load trace files, and write the files of TORCH_COMPILE_DEBUG=1.

Trace files, saved and loaded, both bounded, a large one in parts that are read when asked for (`parts.py`); their JSON Schema
(`schema.py`); what files of older formats say differently (`upgrades.py`); the files of `TORCH_COMPILE_DEBUG=1`.
"""
