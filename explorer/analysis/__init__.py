"""What can be asked of a trace: data in, values out.

`questions` has the answers on graphs, fusion, memory and accuracy, `timing` estimates and reads times, `advice` names what makes
a program slow, `findings` what breaks a contract and what two traces compiled differently, `overview` what a trace says of itself
first. Nothing here compiles, and nothing of torch is named, so that a trace from a file is asked as a live one.
"""
