"""Whether every link of the built site leads somewhere: pages, anchors, figures, the gallery. It asks nothing of a network.

`python docs/links.py [FOLDER]` prints each link that does not, and each folder of the machine that built it, and exits with 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).parent / "_build" / "html"

#: Where a page names a file of the machine that built it.
OF_THE_MACHINE = re.compile(r"(?<![\w.~/-])/(?:root|work|Users|home/\w+)/[\w./-]*")

#: The end of an address that the view reads, of a page of the gallery; `gallery.py` asks the view for each.
PLACE = re.compile(r"(?:^|&)(?:view|at|left|right)=")


class Page(HTMLParser):
    """What a page links to, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.places.add(value or "")
            elif name in ("href", "src", "data") and value and tag != "base":
                self.targets.append(value)


def main(folder: Path) -> int:
    """Print what is wrong and return how the process should exit."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.html"))}
    if not pages:
        print(f"{folder} has no pages: make docs builds them")
        return 1
    wrong = [*dead_links(pages), *machine_names(pages)]
    print(*(f"{path.relative_to(folder)}: {what}" for path, what in wrong), sep="\n", end="\n" if wrong else "")
    print(f"{len(pages)} pages, {len(wrong)} links or names that are wrong")
    return int(bool(wrong))


def dead_links(pages: dict[Path, str]) -> Iterator[tuple[Path, str]]:
    """Yield each page with each of its links that leads to no file, or to no place in a page."""
    parsed = {path.resolve(): Page(text) for path, text in pages.items()}
    for path, page in parsed.items():
        for target in page.targets:
            address = urlsplit(target)
            if address.scheme or address.netloc:
                continue  # `make docs-links` asks for those of other sites
            goal = (path.parent / unquote(address.path)).resolve() if address.path else path
            if not goal.is_file():
                yield path, f"no file for {target}"
            elif address.fragment and goal in parsed and not found(parsed[goal], address.fragment):
                yield path, f"no place for {target}"


def found(page: Page, fragment: str) -> bool:
    return unquote(fragment) in page.places or bool(PLACE.search(fragment))


def machine_names(pages: dict[Path, str]) -> Iterator[tuple[Path, str]]:
    """Yield each page with each name of a folder of the machine that built it."""
    for path, text in pages.items():
        for name in sorted(set(OF_THE_MACHINE.findall(text))):
            yield path, f"it names a folder of a machine, {name}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else SITE))
