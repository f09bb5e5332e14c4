"""Server-sent events (WHATWG HTML, section 9.2), without the connection they come through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

LINE_BYTES_MAX = 64 << 20
"""Longest line that is taken; the server writes much shorter ones."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; `last_id` is the id of the latest event that had one."""

    kind: str
    data: str
    last_id: str | None


class Parser:
    """Takes bytes as they come, cut anywhere, and gives whole events."""

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        """The id of the latest event that was whole."""
        self._id = last_id
        self._pending = b""
        self._kind = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[ServerSentEvent]:
        """Gives the events that end in `piece`."""
        lines = (self._pending + piece).split(b"\n")
        self._pending = lines.pop()
        if len(self._pending) > LINE_BYTES_MAX:
            raise ValueError(f"an event with a line longer than {LINE_BYTES_MAX} bytes")
        for line in lines:
            event = self._line(line.removesuffix(b"\r").decode("utf-8", "replace"))
            if event is not None:
                yield event

    def _line(self, line: str) -> ServerSentEvent | None:
        if not line:
            return self._end()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._kind = value
        elif field == "data":
            self._data.append(value)
        elif field == "id" and "\0" not in value:
            self._id = value
        # A line that begins with a colon is a comment: a heartbeat. Others are for newer clients.
        return None

    def _end(self) -> ServerSentEvent | None:
        kind, data = self._kind or "message", "\n".join(self._data)
        is_event = bool(self._data)
        self._kind, self._data = "", []
        # Before this line, what the id stands for had not come yet.
        self.last_id = self._id
        return ServerSentEvent(kind, data, self.last_id) if is_event else None
