"""The audit log of a server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from .._wire import decode, query
from ..oversight import AuditRecord
from .connection import AsyncConnection


class AsyncAudit:
    """What was run, set, allowed, refused and decided; to read it takes a key of scope `admin`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(
        self,
        *,
        after: int | None = None,
        sandbox: str | None = None,
        kinds: Sequence[str] = (),
        page_count: int | None = None,
    ) -> AsyncIterator[AuditRecord]:
        """Iterates what is recorded, the oldest first, page by page: of one sandbox, of some kinds, or all of it."""
        while True:
            fields = query(after=after, sandbox=sandbox, kind=list(kinds), page_count=page_count)
            page: dict[str, Any] = (await self._connection.request("GET", "/v1/audit", query=fields)).json()
            for one in page["records"]:
                yield decode(AuditRecord, one)
            after = page.get("next")
            if after is None:
                return

    async def follow(
        self, *, after: int | None = None, sandbox: str | None = None, kinds: Sequence[str] = ()
    ) -> AsyncIterator[AuditRecord]:
        """Iterates records as they come, from now on or behind the one of this number.

        It goes on where the connection broke: nothing is left out, and nothing comes twice.
        """
        fields = query(after=after, sandbox=sandbox, kind=list(kinds))
        async for event in self._connection.events("/v1/audit", query=fields):
            if event.kind == "message":
                yield decode(AuditRecord, json.loads(event.data))
