"""What a notebook or a page shows of a trace, and how it gets there.

`wire` has the types that Python and JavaScript share, `payload` makes them of a trace, `packing` makes them small, `page` and
`saved_output` write them into a file, `compared` puts two beside each other, and `widget` talks to the notebook. The answers to
questions come from below; here they only get a form.
"""
