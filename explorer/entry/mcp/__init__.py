"""A server of the Model Context Protocol: an agent asks a trace what a person asks in the view, one small answer at a time.

A server of the Model Context Protocol: `questions.py` answers from the data of a trace, `verbs.py` what is live, `answer.py`
keeps each small; `desk.py` has the open traces, each program in a process of its own (`worker.py`, `program.py`); `server.py`
has the tools.

    explorer mcp                      # over stdin and stdout, as a client starts it
    explorer mcp TRACE...             # with these files open as t1, t2, …
    explorer mcp --root FOLDER        # reads what is below this folder, instead of the working folder

`questions.py` answers from the data of a trace, `verbs.py` what needs the process that compiled. Such a process is one of its own
(`worker.py`), so that a program that hangs or crashes ends its traces and nothing else. `desk.py` keeps the traces by name, and
`server.py` is the only file that imports the protocol's SDK.
"""
