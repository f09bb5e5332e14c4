"""Snapshots: what sandboxes kept at one moment, to go back to and to make others of."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import errors
from .._wire import body, decode, milliseconds, query, segment
from ..models import ForksInfo, Lifecycle, Limits, SandboxInfo, Service, SnapshotDiff, SnapshotInfo
from ..network import NetworkPolicy
from ..usage import Budget
from ..volumes import VolumeMount
from .connection import AsyncConnection

if TYPE_CHECKING:
    from .sandbox import AsyncSandbox

LONG_SECONDS = 24 * 3600.0
"""A copy of a large workspace, or a thousand forks, take what they take."""


class AsyncSnapshots:
    """The snapshots of a server."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def get(self, snapshot: str) -> AsyncSnapshot:
        """The snapshot of this id."""
        response = await self._connection.request("GET", f"/v1/snapshots/{segment(snapshot)}")
        return AsyncSnapshot(self._connection, decode(SnapshotInfo, response.json()))

    async def list(
        self,
        *,
        sandbox: str | None = None,
        labels: Mapping[str, str] | None = None,
        page_count: int | None = None,
    ) -> AsyncIterator[AsyncSnapshot]:
        """Iterates snapshots, oldest first, page by page: all, or those of the sandbox of this id or name."""
        after: str | None = None
        wanted = [f"{key}={value}" for key, value in (labels or {}).items()]
        while True:
            fields = query(sandbox=sandbox, label=wanted, page_count=page_count, after=after)
            page: dict[str, Any] = (await self._connection.request("GET", "/v1/snapshots", query=fields)).json()
            for one in page["snapshots"]:
                yield AsyncSnapshot(self._connection, decode(SnapshotInfo, one))
            after = page.get("next")
            if after is None:
                return

    async def delete(self, snapshot: str) -> None:
        """Deletes the snapshot of this id; sandboxes that were made of it stay as they are."""
        await self._connection.request("DELETE", f"/v1/snapshots/{segment(snapshot)}")


class AsyncSnapshot:
    """A snapshot: the files that a sandbox kept at one moment."""

    def __init__(self, connection: AsyncConnection, info: SnapshotInfo) -> None:
        self._connection = connection
        self.info = info
        """What is known of it."""

    @property
    def id(self) -> str:
        """Its id, which nothing else ever has."""
        return self.info.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    async def fork(
        self,
        *,
        count: int = 1,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        lifecycle: Lifecycle | None = None,
        budget: Budget | None = None,
        services: Sequence[Service] | None = None,
        network: NetworkPolicy | None = None,
        exec_ask: Sequence[str] | None = None,
        volumes: Sequence[VolumeMount] | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncForks:
        """Makes sandboxes of it, each of them once, also where the connection breaks.

        What is not said here they have of the sandbox that it was taken of, but no secrets and no volumes. Of several, names have
        `-1`, `-2` and so on behind them. If none can be made, the error of the first one is raised.
        """
        sandbox = body(
            name=name,
            env=env,
            labels=labels,
            limits=limits,
            lifecycle=lifecycle,
            budget=budget,
            services=services,
            network=network,
            exec_ask=exec_ask,
            volumes=volumes,
        )
        response = await self._connection.request(
            "POST",
            f"/v1/snapshots/{segment(self.id)}/fork",
            body=body(count=count, sandbox=sandbox),
            headers={"idempotency-key": idempotency_key or str(uuid.uuid4())},
            is_repeatable=True,
            wait_seconds=LONG_SECONDS,
        )
        return AsyncForks(self._connection, decode(ForksInfo, response.json()))

    async def diff(self, since: AsyncSnapshot | str | None = None, *, limit: int | None = None) -> SnapshotDiff:
        """What it has otherwise than another snapshot of the same image, or than the one before it."""
        fields = query(**{"with": id_of(since), "limit": limit})
        path = f"/v1/snapshots/{segment(self.id)}/diff"
        response = await self._connection.request("GET", path, query=fields, wait_seconds=LONG_SECONDS)
        return decode(SnapshotDiff, response.json())

    async def delete(self) -> None:
        """Deletes it; sandboxes that were made of it stay as they are."""
        await self._connection.request("DELETE", f"/v1/snapshots/{segment(self.id)}")


class AsyncForks:
    """Sandboxes that were made together. Iterating gives those that run; `errors` has why the others do not."""

    def __init__(self, connection: AsyncConnection, info: ForksInfo) -> None:
        from .sandbox import AsyncSandbox

        self.snapshot_id = info.snapshot_id
        """Of what they were made."""
        made = [one.sandbox for one in info.forks if one.sandbox is not None]
        self.sandboxes: Sequence[AsyncSandbox] = [AsyncSandbox(connection, one, is_own=True) for one in made]
        """Those that run."""
        failed = [one.error for one in info.forks if one.error is not None]
        self.errors: Sequence[errors.ApiError] = [errors.from_wire(one) for one in failed]
        """Why each of the others could not be made."""

    @property
    def ok(self) -> bool:
        """Whether all run that were asked for."""
        return not self.errors

    def __iter__(self) -> Iterator[AsyncSandbox]:
        return iter(self.sandboxes)

    def __len__(self) -> int:
        return len(self.sandboxes)


def id_of(snapshot: AsyncSnapshot | str | None) -> str | None:
    """The id of what may be one already."""
    return snapshot.id if isinstance(snapshot, AsyncSnapshot) else snapshot


async def take(
    connection: AsyncConnection,
    path: str,
    labels: Mapping[str, str] | None,
    delete_after: float | None,
    keep_last: int | None,
) -> AsyncSnapshot:
    """Takes a snapshot of the sandbox at this path."""
    request = body(labels=labels, delete_after_ms=milliseconds(delete_after), keep_last=keep_last)
    response = await connection.request("POST", f"{path}/snapshots", body=request, wait_seconds=LONG_SECONDS)
    return AsyncSnapshot(connection, decode(SnapshotInfo, response.json()))


async def fork(
    connection: AsyncConnection, path: str, count: int, sandbox: dict[str, Any], snapshot: dict[str, Any]
) -> AsyncForks:
    """Takes a snapshot of the sandbox at this path, and makes others of it."""
    request = body(count=count, sandbox=sandbox, snapshot=snapshot)
    response = await connection.request("POST", f"{path}/fork", body=request, wait_seconds=LONG_SECONDS)
    return AsyncForks(connection, decode(ForksInfo, response.json()))


async def restore(connection: AsyncConnection, path: str, snapshot: AsyncSnapshot | str) -> SandboxInfo:
    """Puts the sandbox at this path back."""
    request = {"snapshot": id_of(snapshot)}
    response = await connection.request("POST", f"{path}/restore", body=request, wait_seconds=LONG_SECONDS)
    return decode(SandboxInfo, response.json())
