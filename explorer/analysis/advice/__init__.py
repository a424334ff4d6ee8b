"""Why a compiled program is slow: verdicts on the data of a trace, ranked by what each costs a call. Pure.

Why a program is slow: `advise.py` has `CHECKS`, the written-out tuple of what is asked, one file per subject; `call_cost.py` what
a call takes, on which verdicts state their shares, and what is assumed for it; `verdicts.py` the verdicts and their page.
"""
