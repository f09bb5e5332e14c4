"""The volumes of a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .._wire import body, decode, query, segment
from ..volumes import Volume
from .connection import Connection


class Volumes:
    """The volumes of a server. Each is named by its id or its name."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, name: str, *, labels: Mapping[str, str] | None = None) -> Volume:
        """Makes an empty volume."""
        response = self._connection.request("POST", "/v1/volumes", body=body(name=name, labels=labels))
        return decode(Volume, response.json())

    def list(
        self, *, labels: Mapping[str, str] | None = None, page_count: int | None = None
    ) -> Iterator[Volume]:
        """Iterates volumes by name, page by page."""
        after: str | None = None
        wanted = [f"{key}={value}" for key, value in (labels or {}).items()]
        while True:
            fields = query(label=wanted, page_count=page_count, after=after)
            page: dict[str, Any] = (self._connection.request("GET", "/v1/volumes", query=fields)).json()
            for one in page["volumes"]:
                yield decode(Volume, one)
            after = page.get("next")
            if after is None:
                return

    def get(self, volume: str) -> Volume:
        """The volume of this id or name."""
        response = self._connection.request("GET", f"/v1/volumes/{segment(volume)}")
        return decode(Volume, response.json())

    def delete(self, volume: str) -> None:
        """Deletes a volume with all that it holds. One that a sandbox has, be that stopped, stays."""
        self._connection.request("DELETE", f"/v1/volumes/{segment(volume)}")
