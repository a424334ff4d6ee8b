"""Why a compiled program is slow: verdicts on the data of a trace, ranked by what each costs a call. Pure."""
