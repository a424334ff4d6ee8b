"""torch's warnings on the terminal: what explorer provokes is not printed, what the user asked for and hears is."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator

import pytest
import torch
from torch._logging import _internal

import explorer
from explorer.capture.observe.torch_logs import torch_logs_kept_from_terminal

LOG = logging.getLogger("torch._dynamo.convert_frame")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What torch's own handlers print; afterwards the logs are set as they were."""
    state = _internal._get_log_state()
    torch._logging.set_logs()
    printed = io.StringIO()
    for handler in tuple(_internal.handlers):
        if type(handler) is logging.StreamHandler:
            monkeypatch.setattr(handler, "stream", printed)
    yield printed
    _internal._set_log_state(state)
    _internal._init_logs()


@pytest.mark.compile
def test_a_probe_spills_no_warning_that_plain_torch_prints(terminal: io.StringIO) -> None:
    """The recompile limit is reached on purpose: torch warns of it when a program does that, and not when the probe does."""

    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    with torch._dynamo.config.patch(recompile_limit=2):
        compiled = torch.compile(double, backend="eager", dynamic=False)
        for length in range(3, 7):
            compiled(torch.randn(length))
        assert "recompile_limit" in terminal.getvalue()
        terminal.truncate(0)
        explorer.vary(double, torch.randn(3), backend="eager", variations=[]).to_limit("x", 0)
    assert terminal.getvalue() == ""
    torch._dynamo.reset()


@pytest.mark.compile
def test_a_trace_spills_no_stack_of_an_operator_that_refuses_its_inputs(terminal: io.StringIO) -> None:
    """Its failure says more; the program's own compile prints the stack, as without explorer, and other logs stay."""

    def product(x: torch.Tensor) -> torch.Tensor:
        LOG.warning("another log")
        return x @ x

    assert explorer.trace(product, torch.randn(4, 5), backend="eager").failures
    assert "failed while attempting" not in terminal.getvalue() and "another log" in terminal.getvalue()
    with pytest.raises(RuntimeError):
        torch.compile(product, backend="eager")(torch.randn(4, 5))
    assert "failed while attempting" in terminal.getvalue()
    torch._dynamo.reset()


def test_the_users_handlers_and_other_threads_hear_all(terminal: io.StringIO) -> None:
    """A handler that is not torch's gets each record; another thread's warnings are printed; afterwards all are."""
    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    LOG.addHandler(handler)
    try:
        with torch_logs_kept_from_terminal():
            LOG.warning("ours")
            other = threading.Thread(target=LOG.warning, args=("theirs",))
            other.start()
            other.join()
        LOG.warning("after")
    finally:
        LOG.removeHandler(handler)
    assert heard == ["ours", "theirs", "after"]
    assert "ours" not in terminal.getvalue() and all(word in terminal.getvalue() for word in ("theirs", "after"))


def test_what_the_user_asked_for_is_printed(monkeypatch: pytest.MonkeyPatch, terminal: io.StringIO) -> None:
    """set_logs and TORCH_LOGS name a log, and its warnings stay."""
    torch._logging.set_logs(dynamo=logging.WARNING)
    for handler in tuple(_internal.handlers):
        if type(handler) is logging.StreamHandler:
            monkeypatch.setattr(handler, "stream", terminal)
    with torch_logs_kept_from_terminal():
        LOG.warning("asked for")
    assert "asked for" in terminal.getvalue()
