"""Whether a model fits on GPUs you don't have, and what bounds a call of it, by regional compilation.

Whether a model fits on GPUs you don't have: `models.py` makes it of a config, without data, and splits it over ranks;
`blocks.py` finds its repeated blocks and which are alike, `self_contained.py` whether they can be regions, `regional.py` and
`modules.py` make it a sequence of regions; `graphs.py` reads a region's trace, `memory.py` walks through all regions,
`optimizers.py` runs an optimizer's step; `fit.py` has `fit`, `answer.py` Fit.
"""
