"""What can be asked of a trace: data in, values out.

`questions` has the answers on graphs, fusion, memory and accuracy, `timing` estimates and reads times, `advice` names what makes
a program slow. Nothing here compiles, and nothing of torch is named, so that a trace from a file is asked as a live one.
"""
