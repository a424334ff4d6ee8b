"""Make release/: what is published of a version, after `make docs wheel`: `make release`.

- `release/dist/` has the wheel that `wheel.py` tried, and an sdist that gives the same wheel; twine checks both.
- The wheel is installed in an empty environment of each Python from 3.11 on that is here: with `[view]` it reads recorded traces,
  with `[full]` it traces.
- `release/site/` is the site with the gallery. It is served from there, and every link of every page is followed.
- `release/NOTES.md` is what CHANGELOG.md says of the version.
"""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

from wheel import DATA, PIP, RECORDINGS, ROOT, TRACED, install, run

sys.path.insert(0, str(ROOT / "docs"))
from links import Page, found

RELEASE = ROOT / "release"
SITE = ROOT / "docs" / "_build" / "html"
OLDEST = (3, 11)


def main() -> None:
    """Make everything, and try it."""
    shutil.rmtree(RELEASE, ignore_errors=True)
    wheel, sdist = distributions(RELEASE / "dist")
    print(run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)).strip())
    with tempfile.TemporaryDirectory() as folder:
        same_wheel(wheel, sdist, Path(folder))
        for version, python in pythons():
            tried(wheel, version, python, Path(folder))
    shutil.copytree(SITE, RELEASE / "site")
    (RELEASE / "site" / ".nojekyll").touch()  # GitHub Pages leaves out folders with an underscore otherwise
    follow_every_link(RELEASE / "site")
    version = wheel.name.split("-")[1]
    (RELEASE / "NOTES.md").write_text(notes(version), encoding="utf-8")
    print(f"release/ has version {version}: dist/, site/ and NOTES.md")


def distributions(folder: Path) -> tuple[Path, Path]:
    """Build the sdist, and take the wheel of dist/."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    folder.mkdir(parents=True)
    shutil.copy2(wheel, folder)
    run(sys.executable, "-m", "build", "--sdist", "--outdir", str(folder), str(ROOT))
    (sdist,) = folder.glob("*.tar.gz")
    return folder / wheel.name, sdist


def same_wheel(wheel: Path, sdist: Path, folder: Path) -> None:
    """Build a wheel of the sdist, and compare the files of both; the sdist has the licence and no file of somebody's machine."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"LICENSE", "README.md", "pyproject.toml", "explorer/view/widget/static/explorer.js"}
    assert needed <= names, f"not in the sdist: {sorted(needed - names)}"
    stray = {name for name in names if re.search(r"(^|/)(\.venv|node_modules|\.cache|__pycache__|release|demo)(/|$)", name)}
    assert not stray, f"in the sdist, and no part of it: {sorted(stray)}"
    run(sys.executable, *PIP, "wheel", "--no-deps", "-w", str(folder / "again"), str(sdist))
    (again,) = (folder / "again").iterdir()
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
        differ = {info.filename for info in one.infolist()} ^ {info.filename for info in other.infolist()}
        assert not differ, f"in one of the wheels only: {sorted(differ)}"
        changed = [name for name in one.namelist() if "/RECORD" not in name and one.read(name) != other.read(name)]
    assert not changed, f"not the same in both wheels: {changed}"
    print(f"{sdist.name}: {len(names)} files, and the same wheel is built of it")


def pythons() -> Iterator[tuple[str, str]]:
    """Yield the version and the path of each Python from 3.11 on: those on the path, and those of pyenv."""
    places = [Path(shutil.which(name) or "") for name in ("python3", *(f"python3.{minor}" for minor in range(OLDEST[1], 20)))]
    places += sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin/python3"))
    seen: set[tuple[int, ...]] = set()
    code = "import sys, venv; print(*sys.version_info[:2]); print(sys.executable)"
    for place in [sys.executable, *map(str, places)]:
        done = subprocess.run([place, "-c", code], capture_output=True, text=True, check=False) if Path(place).is_file() else None
        if done is None or done.returncode:
            continue
        version, executable = done.stdout.splitlines()
        number = tuple(map(int, version.split()))
        if number >= OLDEST and number not in seen:
            seen.add(number)
            yield ".".join(version.split()), executable


def tried(wheel: Path, version: str, python: str, folder: Path) -> None:
    """Install the wheel with each of its two main extras in an empty environment of a Python, and use it there."""
    for extra in ("view", "full"):
        place = folder / f"{version}-{extra}"
        run(python, "-m", "venv", "--without-pip", str(place))
        inside = str(place / "bin" / "python")
        install(inside, "-c", str(ROOT / "constraints.txt"), f"{wheel}[{extra}]")
        if extra == "view":
            recordings = [str(DATA / name) for name in RECORDINGS]
            run(inside, "-I", str(ROOT / ".ci" / "reader.py"), *recordings, str(place))
        else:
            run(inside, "-I", "-c", TRACED)
        shutil.rmtree(place)
    print(f"Python {version}: with [view] it reads traces, with [full] it traces")


# The site ----------------------------------------------------------------------------------------------------------------


def follow_every_link(folder: Path) -> None:
    """Serve a folder as any static host would, and fetch every page from its first one on; each link and anchor must be there."""
    with served(folder) as address:
        pages: dict[str, Page | None] = {}
        waiting, wrong, links = [f"{address}/index.html"], list[str](), 0
        while waiting:
            page = waiting.pop()
            pages[page] = parsed = fetched(page)
            for target in parsed.targets if parsed else ():
                goal, fragment = urldefrag(urljoin(page, target))
                if not goal.startswith(address):
                    continue  # `make docs-links` asks other sites
                links += 1
                if goal not in pages and goal not in waiting:
                    pages[goal] = None
                    if (status := answered(goal)) != "":
                        wrong.append(f"{page}: {target}: {status}")
                    elif goal.endswith((".html", "/")):
                        waiting.append(goal)
                if fragment and goal == page and parsed and not found(parsed, fragment):
                    wrong.append(f"{page}: no place for {target}")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"the site, served: {sum(page is not None for page in pages.values())} pages, {links} links, each leads somewhere")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine only; gives the address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def fetched(page: str) -> Page | None:
    with urllib.request.urlopen(page) as answer:
        return Page(answer.read().decode()) if "html" in answer.headers.get_content_type() else None


def answered(address: str) -> str:
    """Ask for a file; "" if it is there, else what the server says."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD")):
            return ""
    except urllib.error.HTTPError as error:
        return f"{error.code} {unquote(address)}"


def notes(version: str) -> str:
    """Return what the changelog says of a version, or of the next one."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    part = re.search(rf"^## \[(?:{re.escape(version)}|Unreleased)\].*?\n(.*?)(?=^## \[|\Z)", text, re.MULTILINE | re.DOTALL)
    if part is None:
        sys.exit(f"CHANGELOG.md says nothing of {version}")
    return f"# explorer {version}\n\n{part[1].strip()}\n"


if __name__ == "__main__":
    main()
