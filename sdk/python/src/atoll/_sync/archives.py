"""Archives: snapshots and sandboxes in object storage, which servers with the same place for them share."""

from __future__ import annotations

from collections.abc import Iterator

from .._wire import decode, query, segment
from ..models import Archived, ArchiveInfo, ArchivePage, RestoredInfo, UnreadableArchive
from .connection import Connection
from .sandbox import Sandbox
from .snapshots import LONG_SECONDS, Snapshot


class Archives:
    """The archives that a server's object store has, whoever made them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, snapshot: Snapshot | str) -> Archived:
        """Archives a snapshot, which stays; `Sandbox.archive` does so with a sandbox."""
        name = snapshot if isinstance(snapshot, str) else snapshot.id
        path = f"/v1/snapshots/{segment(name)}/archive"
        response = self._connection.request("POST", path, wait_seconds=LONG_SECONDS)
        return decode(Archived, response.json())

    def get(self, archive: str) -> ArchiveInfo:
        """The archive of this id."""
        response = self._connection.request("GET", f"/v1/archives/{segment(archive)}")
        return decode(ArchiveInfo, response.json())

    def list(self, *, page_count: int | None = None) -> Iterator[ArchiveInfo | UnreadableArchive]:
        """Iterates archives in the order of their ids, page by page; those that cannot be read come with the reason."""
        after: str | None = None
        while True:
            fields = query(page_count=page_count, after=after)
            page = decode(ArchivePage, (self._connection.request("GET", "/v1/archives", query=fields)).json())
            for one in page.archives:
                yield one
            for unreadable in page.unreadable:
                yield unreadable
            after = page.next
            if after is None:
                return

    def restore(self, archive: str) -> Snapshot | Sandbox:
        """Makes what an archive is of: a snapshot, or a sandbox, which runs. Its id is a new one; the archive stays."""
        path = f"/v1/archives/{segment(archive)}/restore"
        response = self._connection.request("POST", path, wait_seconds=LONG_SECONDS)
        made = decode(RestoredInfo, response.json())
        if made.sandbox is not None:
            return Sandbox(self._connection, made.sandbox, is_own=True)
        assert made.snapshot is not None
        return Snapshot(self._connection, made.snapshot)

    def delete(self, archive: str) -> None:
        """Deletes the archive of this id; what was restored of it stays."""
        self._connection.request("DELETE", f"/v1/archives/{segment(archive)}")
