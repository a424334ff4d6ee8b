"""Tabs of the browser, which tests use one after the other, and the pages of traces, each written once."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from explorer.tracing.traced import Trace
from explorer.tracing.traced.comparison import Comparison
from explorer.view import page

#: Whether the current phase of a test, or one before it, failed.
FAILED = pytest.StashKey[bool]()
#: How long an action or a wait may take, in milliseconds. A condition that holds takes none of it; a busy machine takes much.
PATIENCE = 60_000
#: What a tab is opened with, unless a test asks for something else.
VIEWPORT = {"width": 1400, "height": 800}
#: Wait until the browser has drawn two frames.
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
#: Forget what the pages of files have stored: all of them share one origin, `file://`.
FORGET = "() => { try { localStorage.clear(); sessionStorage.clear(); } catch { } }"


def to_texts(shown: Any) -> None:
    """Go to the texts in every view of a page, or in one view: a view opens on its overview."""
    code = shown.locator("[role=tab][data-view=code]")
    code.first.wait_for()
    for tab in code.all():
        tab.click()


def to_view(shown: Any, title: str) -> None:
    """Go to the view with that title: by its tab, or under "more" where the row has no room for the tab."""
    tab = shown.get_by_role("tab", name=title, include_hidden=True)
    tab.evaluate(TWO_FRAMES)  # the row is fitted when it is laid out
    if tab.is_visible():
        tab.click()
    else:
        shown.get_by_label("more views").select_option(tab.get_attribute("data-view"))


class Tab:
    """A page in a context of its own, with what it has logged, raised and requested since it was last reset."""

    def __init__(self, browser: Any, **settings: Any) -> None:
        self.context = browser.new_context(viewport=VIEWPORT, **settings)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.logged: list[str] = []
        self.raised: list[str] = []
        self.requested: list[str] = []
        self.page.on("console", lambda message: self.logged.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.raised.append(str(error)))
        self.page.on("request", lambda request: self.requested.append(request.url))

    def leave(self, empty: str) -> None:
        """Leave the page that is shown, forget what it stored, and move the pointer out of sight.

        A page that was left logs and requests nothing more, so what was heard until now is complete.
        """
        self.page.goto(empty)
        self.page.evaluate(FORGET)
        self.page.mouse.move(-1, -1)
        self.page.goto("about:blank")

    def forget(self) -> None:
        """Forget what was heard."""
        for heard in (self.logged, self.raised, self.requested):
            heard.clear()


class Tabs:
    """The free tabs of a module, by their settings."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self.browser = browser
        self.free: dict[str, list[Tab]] = {}
        empty = folder / "empty.html"
        empty.write_text("<!doctype html><meta charset=utf-8>", encoding="utf-8")
        #: The address of a file without a script.
        self.empty = empty.as_uri()

    @contextmanager
    def lent_to(self, test: pytest.Item) -> Iterator[Lent]:
        """Lend tabs to a test. Those of a test that fails are closed; one that is run again gets new ones."""
        lent = Lent(self, test)
        try:
            yield lent
            lent.give_back()
        finally:
            lent.close()

    def close(self) -> None:
        """Close the tabs that are free."""
        for tab in (tab for tabs in self.free.values() for tab in tabs):
            tab.context.close()
        self.free.clear()


class Lent:
    """The tabs of one test: `lent(color_scheme="dark")` is a page."""

    def __init__(self, tabs: Tabs, test: pytest.Item) -> None:
        self.tabs, self.test = tabs, test
        self.reusable: list[tuple[Tab, str]] = []
        self.alone: list[Tab] = []

    def __call__(
        self, *, alone: bool = False, viewport: dict[str, int] = VIEWPORT, color_scheme: str = "light", **settings: Any
    ) -> Any:
        """An empty page, from a tab that another test may have had before.

        One that is `alone` has a context of its own, which is closed after the test. A test asks for that if it changes
        the context itself: by an init script, a route, a clock or the DevTools protocol.
        """
        key = repr(sorted(settings.items()))
        is_again = getattr(self.test, "execution_count", 1) > 1  # of pytest-rerunfailures
        if alone:
            self.alone.append(tab := Tab(self.tabs.browser, **settings))
        else:
            free = [] if is_again else self.tabs.free.get(key, [])
            tab = free.pop() if free else Tab(self.tabs.browser, **settings)
            self.reusable.append((tab, key))
        tab.page.set_viewport_size(viewport)
        # a background that still changes has the colour of no scheme
        tab.page.emulate_media(color_scheme=color_scheme, reduced_motion="reduce")
        return tab.page

    @property
    def all(self) -> list[Tab]:
        return [*self.alone, *(tab for tab, _ in self.reusable)]

    @property
    def has_failed(self) -> bool:
        return self.test.stash.get(FAILED, False)

    @property
    def logged(self) -> list[str]:
        """What the pages wrote to the console, and the errors that they raised."""
        return [text for tab in self.all for text in (*tab.logged, *(f"exception: {text}" for text in tab.raised))]

    @property
    def raised(self) -> list[str]:
        """The errors that the pages raised."""
        return [text for tab in self.all for text in tab.raised]

    @property
    def requested(self) -> set[str]:
        """The addresses that the pages requested, without fragments."""
        return {url.partition("#")[0] for tab in self.all for url in tab.requested} - {self.tabs.empty}

    @property
    def requested_outside(self) -> list[str]:
        """The addresses that are neither of files of this machine nor of the pages themselves."""
        return sorted(url for url in self.requested if url.partition(":")[0] not in ("file", "blob", "data", "about"))

    def leave(self) -> None:
        """Leave every page that another test may have: what was heard of all pages is complete then."""
        if self.has_failed:
            return
        for tab, _ in self.reusable:
            tab.leave(self.tabs.empty)
        for tab in self.alone:
            tab.page.evaluate("1")  # what was heard before the answer arrives before it

    def give_back(self) -> None:
        """Give back the tabs that another test may have, unless this one has failed."""
        if self.has_failed:
            return
        for tab, key in self.reusable:
            tab.forget()
            self.tabs.free.setdefault(key, []).append(tab)
        self.reusable.clear()

    def close(self) -> None:
        """Close the tabs that were not given back."""
        for tab in self.all:
            tab.context.close()


class Pages:
    """The saved pages of traces and comparisons: a trace does not change, so its page is written once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[tuple[object, ...], Path] = {}
        self.count = 0

    def __call__(self, shown: Trace | Comparison) -> Path:
        """The page of a trace or of a comparison, which stays as long as the traces do."""
        traces = shown.traces if isinstance(shown, Comparison) else (shown,)
        key = (*map(id, traces), *(shown.names if isinstance(shown, Comparison) else ()))
        if key not in self.files:
            self.count += 1
            file = self.folder / f"page{self.count}.html"
            page.save(shown, file)
            self.files[key] = file
            for trace in traces:
                weakref.finalize(trace, self.drop, key)  # another trace may have its id then
        return self.files[key]

    def drop(self, key: tuple[object, ...]) -> None:
        """Remove a page."""
        if file := self.files.pop(key, None):
            file.unlink(missing_ok=True)
