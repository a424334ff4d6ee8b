"""A notebook's temporary files are called by their cells, however much of their folder a text has."""

from __future__ import annotations

import pytest

from explorer.analysis.questions.cells import renamed

CELLS = {"/tmp/ipykernel_70/183.py": "In[3]", "183.py": "In[3]", "/home/a b/ipykernel_70/27.py": "In[4]", "27.py": "In[4]"}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('File "/tmp/ipykernel_70/183.py", line 5, in f', 'File "In[3]", line 5, in f'),
        ("n == 2.0  # y = x * n  # mp/ipykernel_70/183.py:5 in f", "n == 2.0  # y = x * n  # In[3]:5 in f"),
        ("f (183.py:2)", "f (In[3]:2)"),
        ("/home/a b/ipykernel_70/27.py:1", "In[4]:1"),
        ("model.py:3 and a/183", "model.py:3 and a/183"),
    ],
)
def test_a_file_of_a_cell_is_called_by_the_cell(said: str, shown: str) -> None:
    """Also where torch has cut the beginning of a long path; other files keep their names, and so does the compiler's text."""
    assert renamed({"message": [said], "text": said}, CELLS) == {"message": [shown], "text": said}
