"""Many traces, one answer: what changes with the sizes, with the settings, or with one value of the input.

`fitting` finds the largest batch that fits into a GPU's memory, `sweeping` makes a table over targets and settings, `probing`
varies a program by hand or by mode and shows what becomes otherwise.
"""
