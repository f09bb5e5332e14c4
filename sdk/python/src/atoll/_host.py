"""Where the server is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Host:
    """A unix socket or a base URL, one of both."""

    text: str
    socket: str | None
    base_url: str


def find(host: str | None, environment: Mapping[str, str] = os.environ, uid: int | None = None) -> Host:
    """Reads what the caller gave, else `ATOLL_HOST`, else looks where `atoll serve` listens by default."""
    text = host or environment.get("ATOLL_HOST") or default(environment, os.getuid() if uid is None else uid)
    if text.startswith("unix://"):
        return Host(text, text.removeprefix("unix://"), "http://localhost")
    if text.startswith("/"):
        return Host(f"unix://{text}", text, "http://localhost")
    if text.startswith(("http://", "https://")):
        return Host(text, None, text.rstrip("/"))
    raise ValueError(f"host is unix:///path, http://… or https://…, not {text!r}")


def default(environment: Mapping[str, str], uid: int) -> str:
    """The socket where the caller's own server listens if it was not told where."""
    if uid == 0:
        return "unix:///run/atoll/atoll.sock"
    runtime = environment.get("XDG_RUNTIME_DIR")
    if runtime:
        return f"unix://{runtime}/atoll/atoll.sock"
    state = environment.get("XDG_STATE_HOME") or str(Path(environment.get("HOME", "/")) / ".local/state")
    return f"unix://{state}/atoll/server/atoll.sock"


def key(api_key: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The key that the caller gave, else `ATOLL_API_KEY`."""
    return api_key or environment.get("ATOLL_API_KEY")
