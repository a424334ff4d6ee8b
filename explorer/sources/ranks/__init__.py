"""Many ranks of one job: read together, and compared by what they compute.

The ranks of one job: the files of a folder, or one file of all (`folder.py`), what each rank computed without what differs in
any case (`parts.py`), where ranks differ (`divergences.py`), and which one others wait for (`waiting.py`).
"""
