"""Build the site into docs/_build/html: `make docs`. Warnings are errors, and so are links that lead nowhere.

It makes the gallery, unless its pages are newer than all that they are made of; builds the pages by Sphinx; and looks at every
link of the result. It asks nothing of a network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import gallery
import links

DOCS = Path(__file__).parent
ROOT = DOCS.parent

#: All warnings are errors, and shown; nothing of an earlier build is taken up.
STRICT = ("-W", "--keep-going", "-E", "-q")


def main() -> int:
    """Build, and return how the process should exit."""
    os.chdir(ROOT)
    began = time.perf_counter()
    if not fresh(gallery.FOLDER / "index.json"):
        run("docs/gallery.py")
    shutil.rmtree(links.SITE, ignore_errors=True)
    run("-m", "sphinx", *STRICT, "-b", "html", "-c", "docs", "-d", "docs/_build/doctrees", ".", str(links.SITE))
    shutil.copytree(gallery.FOLDER, links.SITE / "docs" / "gallery", ignore=shutil.ignore_patterns("index.json"))
    status = links.main(links.SITE)
    print(f"{links.SITE.relative_to(ROOT)}/index.html, in {time.perf_counter() - began:.0f} s")
    return status


def fresh(made: Path) -> bool:
    """Whether a file is newer than the package, the front end, the gallery's programs and the pinned versions."""
    sources = [
        *(ROOT / "explorer").rglob("*.py"),
        *(ROOT / "explorer" / "view" / "widget" / "static").iterdir(),
        *DOCS.glob("gallery*.py"),
        ROOT / "constraints.txt",  # a trace shows what these versions of torch and triton make
    ]
    return made.exists() and made.stat().st_mtime > max(path.stat().st_mtime for path in sources)


def run(*arguments: str) -> None:
    done = subprocess.run([sys.executable, *arguments], check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


if __name__ == "__main__":
    sys.exit(main())
