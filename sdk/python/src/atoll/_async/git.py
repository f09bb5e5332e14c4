"""Git repositories of a sandbox. Git runs inside."""

from __future__ import annotations

from typing import Any

from .._wire import Text, body, decode, octets, query, raw
from ..models import GitDiff, GitStatus
from .connection import AsyncConnection

GIT_SECONDS = 600.0
"""How long git may take."""


class AsyncGit:
    """The repositories of one sandbox. Errors carry what git said."""

    def __init__(self, connection: AsyncConnection, sandbox_path: str) -> None:
        self._connection = connection
        self._path = f"{sandbox_path}/git"

    async def _post(self, verb: str, request: Any) -> GitStatus:
        response = await self._connection.request(
            "POST", f"{self._path}/{verb}", body=request, wait_seconds=GIT_SECONDS
        )
        return decode(GitStatus, response.json())

    async def _get(self, verb: str, fields: str) -> Any:
        response = await self._connection.request(
            "GET", f"{self._path}/{verb}", query=fields, wait_seconds=GIT_SECONDS
        )
        return response.json()

    async def clone(self, url: str, path: Text, *, branch: str | None = None, depth: int | None = None) -> GitStatus:
        """Clones a repository to `path`."""
        return await self._post("clone", body(url=url, path=octets(path), branch=branch, depth=depth))

    async def status(self, path: Text) -> GitStatus:
        """Tells the branch and what is changed."""
        return decode(GitStatus, await self._get("status", query(path=raw(path))))

    async def diff(
        self, path: Text, *, staged: bool | None = None, source: str | None = None, to: str | None = None
    ) -> GitDiff:
        """Tells how the work tree differs, or what is staged, or two revisions."""
        fields = query(**{"path": raw(path), "staged": staged, "from": source, "to": to})
        return decode(GitDiff, await self._get("diff", fields))

    async def checkout(self, path: Text, target: str, *, create: bool | None = None) -> GitStatus:
        """Checks out a branch or revision; with `create` a new branch."""
        return await self._post("checkout", body(path=octets(path), target=target, create=create))
