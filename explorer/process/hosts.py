"""What shows the outputs of this process's notebook, as far as its environment says."""

from __future__ import annotations

from collections.abc import Mapping

#: Variables of hosts that run no model of a widget before its view is shown, each set for every kernel there: VS Code (the
#: first two), Colab, Databricks, Deepnote, Hex.
VIEW_FIRST = (
    "VSCODE_PID",
    "VSCODE_CWD",
    "COLAB_RELEASE_TAG",
    "DATABRICKS_RUNTIME_VERSION",
    "DEEPNOTE_PROJECT_ID",
    "HEX_PROJECT_ID",
)


def needs_view(environment: Mapping[str, str]) -> bool:
    """Whether a widget is live only where a widget view shows it.

    Voila names itself in `SERVER_SOFTWARE`; it never saves what it shows.
    """
    return environment.get("SERVER_SOFTWARE", "").startswith("voila") or any(name in environment for name in VIEW_FIRST)
