"""A class pack: copies of notebooks that run without PyTorch, with the traces that their cells made.

`notebooks.py` finds the workshop's notebooks. `pack.py` makes the copies, by trying each of `statements.py` with and without
PyTorch, but for what asks a quiz; `values.py` keeps what a statement bound and what exercises are judged by, and
`recorded.py` gives it back.

`explorer classpack -o FOLDER` runs each notebook and records what its statements made. In the copy a statement that
cannot run without PyTorch stands as a comment, and `recorded` gives what it made and shows what it put out.
"""

from __future__ import annotations

from explorer.workshop.classpack.recorded import Recorded as Recorded
