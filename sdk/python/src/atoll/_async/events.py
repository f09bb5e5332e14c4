"""Events of sandboxes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from .._wire import decode, query
from ..models import Event, Missed
from .connection import AsyncConnection


async def follow(
    connection: AsyncConnection, *, after: int | None, sandbox: str | None
) -> AsyncIterator[Event | Missed]:
    """Iterates events, and goes on behind the last one where the connection breaks."""
    async for event in connection.events("/v1/events", query=query(after=after, sandbox=sandbox)):
        if event.kind == "message":
            yield decode(Event, json.loads(event.data))
        elif event.kind == "missed":
            yield decode(Missed, json.loads(event.data))
