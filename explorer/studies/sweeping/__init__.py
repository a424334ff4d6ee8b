"""Many traces at once: models × targets × settings × interpreters, by an executor.

Models × targets × settings × interpreters: `cell.py` traces one and gives its row, `sweep.py` hands the cells to an executor
and has the table.
"""
