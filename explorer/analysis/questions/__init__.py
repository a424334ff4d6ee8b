"""Questions about a recorded compile: data in, values out.

Provenance, coverage, memory, fusion, costs, comparison, diagram, kernels, tables, summary, what is missing and why: read the
data of a trace, answer in values.
"""
