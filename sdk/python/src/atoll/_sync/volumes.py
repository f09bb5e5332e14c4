"""The volumes of a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from .._wire import body, decode, query, segment
from ..volumes import Volume
from .connection import Connection
from .snapshots import LONG_SECONDS


class Volumes:
    """The volumes of a server. Each is named by its id or its name."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        copy_of: str | None = None,
        is_read_only: bool | None = None,
        limit_bytes: int | None = None,
        host_path: str | None = None,
    ) -> Volume:
        """Makes a volume: empty, or a copy of another one as that is at one moment, while who writes to it stands still.

        A copy that is read-only is a snapshot: nobody ever writes to it. `host_path` is a folder of the server's
        machine, one that its settings grant, and needs a key of scope `admin`.
        """
        request = body(
            name=name,
            labels=labels,
            copy_of=copy_of,
            is_read_only=is_read_only,
            limit_bytes=limit_bytes,
            host_path=host_path,
        )
        response = self._connection.request("POST", "/v1/volumes", body=request, wait_seconds=LONG_SECONDS)
        return decode(Volume, response.json())

    def set_limit(self, volume: str, limit_bytes: int | None) -> Volume:
        """Limits how many bytes may lie on a volume, no fewer than do; `None` takes the limit away."""
        path = f"/v1/volumes/{segment(volume)}/limit"
        request = {"bytes": limit_bytes}
        response = self._connection.request("PUT", path, body=request, wait_seconds=LONG_SECONDS)
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

    def export(self, volume: str) -> Iterator[bytes]:
        """Iterates what a volume holds as a tar archive, with flat memory. Nobody may write to it meanwhile.

        Where a sandbox writes, take a snapshot and export that.
        """
        try:
            with self._connection.stream(f"/v1/volumes/{segment(volume)}/export", query=query()) as response:
                for piece in response.iter_raw():
                    yield piece
        except httpx.TransportError as cause:
            # It is another archive the next time.
            raise self._connection.failure(cause) from cause

    def delete(self, volume: str) -> None:
        """Deletes a volume with all that it holds. One that a sandbox has, be that stopped, stays."""
        self._connection.request("DELETE", f"/v1/volumes/{segment(volume)}")
