"""Which thread, register or byte of shared memory holds which element of a value of TTGIR. Pure.

Where the elements of a value of TTGIR are: its text (`ttgir.py`, `attributes.py`), each layout attribute as a linear layout
(`encodings.py`), the banks that an access touches, the picture and the tables.
"""
