"""What a class needs: `quiz` has the exercises and judges answers, `classpack` makes notebooks that run without PyTorch.

Both use only what any user has: the verbs of a trace. It answers whether someone has understood a part of the compiler.
"""
