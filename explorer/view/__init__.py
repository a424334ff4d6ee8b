"""What a notebook or a page shows of a trace, and how it gets there.

`wire` has the types that Python and JavaScript share, `payload` makes them of a trace, `packing` makes them small, `page` and
`kept` write them into a file, `compared` puts two beside each other, and `widget` talks to the notebook. What a question's
answer is comes from below; here it only gets a form.
"""
