"""A class pack: copies of notebooks that run without PyTorch, with the traces that their cells made.

`explorer classpack NOTEBOOK… -o FOLDER` runs each notebook and records what its statements made. In the copy a statement that
cannot run without PyTorch stands as a comment, and `recorded` gives what it made and shows what it put out.
"""

from __future__ import annotations

from explorer.classpack.recorded import Recorded as Recorded
