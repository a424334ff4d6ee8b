"""What is worth a complaint in a trace, and what two traces compiled differently, each a Finding. Pure.

What breaks a contract, and what changed: `finding.py` has the value, `rules.py` what is found in one trace, `fused.py` whether
parts of the program are one kernel. `facts.py` has what is compared, and stored, of a trace; `changes.py` compares, and
`report.py` writes the difference as text and Markdown.
"""
