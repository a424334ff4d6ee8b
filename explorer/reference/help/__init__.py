"""One line and a link for the words of the texts: instructions, operations, operators, terms. Pure.

What the words of the texts are: one table for each language, a `.tsv` with its source in its first lines; `words.py` looks a
word up, and `view/widget/src/words.js` in the same way.
"""
