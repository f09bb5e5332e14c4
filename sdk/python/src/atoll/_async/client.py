"""A server and its sandboxes."""

from __future__ import annotations

import itertools
import json
import os
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import _tar
from .._wire import body, decode, query, segment
from ..images import ImagePull
from ..models import (
    Capabilities,
    Event,
    Health,
    Key,
    Lifecycle,
    Limits,
    Missed,
    NewKey,
    SandboxInfo,
    Scope,
    Service,
    State,
    Workspace,
)
from ..network import NetworkPolicy
from ..usage import Budget, SharedBudget, UsagePage
from ..volumes import VolumeMount
from . import io
from .approvals import AsyncApprovals
from .archives import AsyncArchives
from .audit import AsyncAudit
from .connection import AsyncConnection
from .events import follow
from .images import AsyncImages
from .sandbox import AsyncSandbox
from .secrets import AsyncSecrets
from .snapshots import AsyncSnapshot, AsyncSnapshots, id_of
from .volumes import AsyncVolumes

SILENCE_SECONDS = 50.0
"""A little more than three of the server's heartbeats."""


class AsyncAtoll:
    """A server.

    `host` is `unix:///path`, `http://…` or `https://…`; without it the environment variable `ATOLL_HOST` counts, else
    the socket where `atoll serve` of the same user listens. `api_key`, else `ATOLL_API_KEY`, is needed over HTTP. A
    stream is taken up again if nothing is heard for `silence_timeout` seconds.
    """

    def __init__(
        self, host: str | None = None, api_key: str | None = None, *, silence_timeout: float = SILENCE_SECONDS
    ) -> None:
        self._connection = AsyncConnection(host, api_key, silence_timeout)
        self.keys = AsyncKeys(self._connection)
        """The keys of the server."""
        self.snapshots = AsyncSnapshots(self._connection)
        """The snapshots of its sandboxes."""
        self.archives = AsyncArchives(self._connection)
        """Snapshots and sandboxes in its object storage."""
        self.secrets = AsyncSecrets(self._connection)
        """The secrets of the server."""
        self.images = AsyncImages(self._connection)
        """The images that its sandboxes are made of."""
        self.approvals = AsyncApprovals(self._connection)
        """What sandboxes asked for, and people decide."""
        self.volumes = AsyncVolumes(self._connection)
        """The volumes of the server."""
        self.audit = AsyncAudit(self._connection)
        """What was recorded."""

    async def __aenter__(self) -> AsyncAtoll:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes all connections to the server; sandboxes go on."""
        await self._connection.aclose()

    async def create(
        self,
        *,
        name: str | None = None,
        image: str | None = None,
        image_pull: ImagePull | None = None,
        snapshot: AsyncSnapshot | str | None = None,
        template: str | None = None,
        pool: str | None = None,
        env: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        lifecycle: Lifecycle | None = None,
        budget: Budget | None = None,
        services: Sequence[Service] | None = None,
        workspace: Workspace | None = None,
        network: NetworkPolicy | None = None,
        exec_ask: Sequence[str] | None = None,
        volumes: Sequence[VolumeMount] | None = None,
        files: str | os.PathLike[str] | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncSandbox:
        """Makes a sandbox, and returns when it runs. It is made once, also where the connection breaks.

        `files` is a local directory that it begins with, all of it. Then there is no sandbox if the connection breaks.
        With a `snapshot`, or its id, or a `template`, as `web` or `web@2`, it begins as that, in place of an image; with
        a `pool` it is one of that, which runs already, or `info.pool.cold_because` says why it is not. It reaches what `network` says, and nothing where nothing is said. Commands like one of `exec_ask`, as in
        `git push *`, wait for somebody who approves: see `exec`. `volumes` are shown in it.
        """
        request = body(
            name=name,
            image=image,
            image_pull=image_pull,
            snapshot=id_of(snapshot),
            template=template,
            pool=pool,
            env=env,
            labels=labels,
            limits=limits,
            lifecycle=lifecycle,
            budget=budget,
            services=services,
            workspace=workspace,
            network=network,
            exec_ask=exec_ask,
            volumes=volumes,
        )
        headers = {"idempotency-key": idempotency_key or str(uuid.uuid4())}
        info = await self._make("POST", "/v1/sandboxes", request, files, headers)
        return AsyncSandbox(self._connection, info, is_own=True)

    async def _make(
        self,
        method: str,
        path: str,
        request: dict[str, Any],
        files: str | os.PathLike[str] | None,
        headers: dict[str, str],
    ) -> SandboxInfo:
        if files is None:
            response = await self._connection.request(method, path, body=request, headers=headers, is_repeatable=True)
        else:
            line = json.dumps({"workspace": {}, **request}).encode() + b"\n"
            archive = itertools.chain([line], _tar.pack(Path(files)))
            headers = {**headers, "content-type": "application/vnd.atoll.create"}
            response = await self._connection.request(method, path, content=io.pieces(archive), headers=headers)
        return decode(SandboxInfo, response.json())

    async def get(self, sandbox: str) -> AsyncSandbox:
        """The sandbox of this id or name."""
        response = await self._connection.request("GET", f"/v1/sandboxes/{segment(sandbox)}")
        return AsyncSandbox(self._connection, decode(SandboxInfo, response.json()))

    async def get_or_create(
        self,
        name: str,
        *,
        image: str | None = None,
        image_pull: ImagePull | None = None,
        snapshot: AsyncSnapshot | str | None = None,
        template: str | None = None,
        pool: str | None = None,
        env: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        lifecycle: Lifecycle | None = None,
        budget: Budget | None = None,
        services: Sequence[Service] | None = None,
        workspace: Workspace | None = None,
        network: NetworkPolicy | None = None,
        exec_ask: Sequence[str] | None = None,
        volumes: Sequence[VolumeMount] | None = None,
        files: str | os.PathLike[str] | None = None,
    ) -> AsyncSandbox:
        """The sandbox of this name, made if there is none. However many ask at once, all get the same."""
        request = body(
            image=image,
            image_pull=image_pull,
            snapshot=id_of(snapshot),
            template=template,
            pool=pool,
            env=env,
            labels=labels,
            limits=limits,
            lifecycle=lifecycle,
            budget=budget,
            services=services,
            workspace=workspace,
            network=network,
            exec_ask=exec_ask,
            volumes=volumes,
        )
        info = await self._make("PUT", f"/v1/sandboxes/{segment(name)}", request, files, {})
        return AsyncSandbox(self._connection, info)

    async def list(
        self,
        *,
        states: Sequence[State] = (),
        labels: Mapping[str, str] | None = None,
        page_count: int | None = None,
    ) -> AsyncIterator[AsyncSandbox]:
        """Iterates sandboxes, oldest first, page by page."""
        cursor: str | None = None
        wanted = [f"{key}={value}" for key, value in (labels or {}).items()]
        while True:
            fields = query(state=list(states), label=wanted, page_count=page_count, cursor=cursor)
            page: dict[str, Any] = (await self._connection.request("GET", "/v1/sandboxes", query=fields)).json()
            for one in page["sandboxes"]:
                yield AsyncSandbox(self._connection, decode(SandboxInfo, one))
            cursor = page.get("next")
            if cursor is None:
                return

    def events(self, *, after: int | None = None) -> AsyncIterator[Event | Missed]:
        """Iterates what happens to all sandboxes, from now on or behind the event of this number."""
        return follow(self._connection, after=after, sandbox=None)

    async def usage(
        self, *, labels: Mapping[str, str] | None = None, page_count: int | None = None, cursor: str | None = None
    ) -> UsagePage:
        """What sandboxes have used, those that were deleted included: a page of them, and all together."""
        wanted = [f"{key}={value}" for key, value in (labels or {}).items()]
        fields = query(label=wanted, page_count=page_count, cursor=cursor)
        return decode(UsagePage, (await self._connection.request("GET", "/v1/usage", query=fields)).json())

    async def budgets(self) -> tuple[SharedBudget, ...]:
        """The budgets that sandboxes with certain labels have together, with what was used of them."""
        found = (await self._connection.request("GET", "/v1/budgets")).json()["budgets"]
        return tuple(decode(SharedBudget, one) for one in found)

    async def capabilities(self) -> Capabilities:
        """Tells what can be asked of the server."""
        return decode(Capabilities, (await self._connection.request("GET", "/v1/capabilities")).json())

    async def health(self) -> Health:
        """Tells how the server is. One that is `failing` answers too."""
        return decode(Health, (await self._connection.health()).json())


class AsyncKeys:
    """The keys of a server."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def create(self, scope: Scope, *, note: str | None = None) -> NewKey:
        """Makes a key."""
        response = await self._connection.request("POST", "/v1/keys", body=body(scope=scope, note=note))
        return decode(NewKey, response.json())

    async def list(self) -> tuple[Key, ...]:
        """All keys, oldest first, without their secrets."""
        found = (await self._connection.request("GET", "/v1/keys")).json()["keys"]
        return tuple(decode(Key, one) for one in found)

    async def revoke(self, key: str) -> None:
        """Revokes the key of this id: on return it opens nothing any more."""
        await self._connection.request("DELETE", f"/v1/keys/{segment(key)}")
