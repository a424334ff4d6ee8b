"""`python -m explorer`: the same as the `explorer` command."""

from __future__ import annotations

import sys

from explorer.entry.cli import main

if __name__ == "__main__":
    sys.exit(main())
