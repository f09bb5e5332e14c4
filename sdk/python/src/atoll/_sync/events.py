"""Events of sandboxes."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .._wire import decode, query
from ..models import Event, Missed
from .connection import Connection


def follow(
    connection: Connection, *, after: int | None, sandbox: str | None
) -> Iterator[Event | Missed]:
    """Iterates events, and goes on behind the last one where the connection breaks."""
    for event in connection.events("/v1/events", query=query(after=after, sandbox=sandbox)):
        if event.kind == "message":
            yield decode(Event, json.loads(event.data))
        elif event.kind == "missed":
            yield decode(Missed, json.loads(event.data))
