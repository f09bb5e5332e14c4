"""Files of a sandbox."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import httpx

from .. import _tar, errors
from .._wire import Text, body, decode, octets, query, raw
from ..models import Edited, FileEvent, FileStat, Found, Listing, Replacement, Unpacked
from . import io
from .connection import TRIES, Connection, pause

OCTETS = {"content-type": "application/octet-stream"}


class Files:
    """The files of one sandbox. Paths are its own and absolute."""

    def __init__(self, connection: Connection, sandbox_path: str) -> None:
        self._connection = connection
        self._path = f"{sandbox_path}/files"

    def _get(self, verb: str, **fields: Any) -> Any:
        return (self._connection.request("GET", f"{self._path}/{verb}", query=query(**fields))).json()

    def _post(self, verb: str, request: Any, *, is_repeatable: bool = False) -> Any:
        response = self._connection.request(
            "POST", f"{self._path}/{verb}", body=request, is_repeatable=is_repeatable
        )
        return response.json() if response.content else None

    def read(self, path: Text, *, offset: int = 0, length: int | None = None) -> bytes:
        """Reads a file."""
        pieces = [piece for piece in self.stream(path, offset=offset, length=length)]
        return b"".join(pieces)

    def read_text(self, path: Text, *, encoding: str = "utf-8") -> str:
        """Reads a file as text."""
        return (self.read(path)).decode(encoding)

    def stream(self, path: Text, *, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Iterates the bytes of a file, with flat memory.

        It goes on where the connection broke, if the file is as it was; else it raises `Conflict`.
        """
        failures = 0
        version: tuple[int, int] | None = None
        while True:
            try:
                with self._connection.stream(
                    f"{self._path}/content", query=query(path=raw(path), offset=offset, length=length)
                ) as response:
                    version = check_version(response, version)
                    for piece in response.iter_raw():
                        failures = 0
                        offset += len(piece)
                        length = None if length is None else length - len(piece)
                        yield piece
                    return
            except httpx.TransportError as cause:
                failures += 1
                # Without knowing that it is the same file there is no going on.
                if failures >= TRIES or version is None:
                    raise self._connection.failure(cause) from cause
                io.sleep(pause(failures))

    def write(
        self,
        path: Text,
        data: io.Content,
        *,
        existing: Literal["replace", "append", "keep"] | None = None,
        mode: str | None = None,
        make_parents: bool | None = None,
    ) -> FileStat:
        """Writes a file from text, bytes, an open file or an iterator of bytes, with flat memory.

        It is replaced at the end and at once. `mode` is octal, as `"0644"`.
        """
        whole = data.encode() if isinstance(data, str) else data
        response = self._connection.request(
            "PUT",
            f"{self._path}/content",
            query=query(path=raw(path), existing=existing, mode=mode, make_parents=make_parents),
            content=whole if isinstance(whole, bytes) else io.pieces(whole),
            headers=OCTETS,
            is_repeatable=existing in (None, "replace"),
        )
        return decode(FileStat, response.json())

    def list(self, path: Text, *, depth: int | None = None, limit: int | None = None) -> Listing:
        """Lists a directory, `depth` levels deep."""
        return decode(Listing, self._get("list", path=raw(path), depth=depth, limit=limit))

    def stat(self, path: Text, *, follow: bool | None = None) -> FileStat:
        """Looks at a name; with `follow` at what a link leads to."""
        return decode(FileStat, self._get("stat", path=raw(path), follow=follow))

    def exists(self, path: Text) -> bool:
        """Whether there is such a name."""
        try:
            self.stat(path)
        except errors.NotFound:
            # A sandbox that is gone is something else than a file that is not there.
            self.stat("/")
            return False
        return True

    def make_directory(
        self, path: Text, *, mode: str | None = None, make_parents: bool | None = None
    ) -> FileStat:
        """Makes a directory; one that is there is not touched."""
        request = body(path=octets(path), mode=mode, make_parents=make_parents)
        return decode(FileStat, self._post("make_directory", request, is_repeatable=True))

    def remove(self, path: Text, *, recursive: bool | None = None) -> None:
        """Removes a name; with `recursive` a directory with everything in it."""
        self._post("remove", body(path=octets(path), recursive=recursive))

    def move(self, source: Text, to: Text, *, replace: bool | None = None) -> FileStat:
        """Moves a name to a new one."""
        request = {"from": octets(source), **body(to=octets(to), replace=replace)}
        return decode(FileStat, self._post("move", request))

    def set_mode(self, path: Text, mode: str) -> FileStat:
        """Sets the mode of a name, octal, as `"0755"`."""
        return decode(FileStat, self._post("set_mode", {"path": octets(path), "mode": mode}, is_repeatable=True))

    def edit(
        self,
        path: Text,
        old: str | None = None,
        new: str | None = None,
        *,
        expected: int | Literal["any"] = 1,
        replacements: Sequence[Replacement] = (),
    ) -> Edited:
        """Replaces text, all of it or nothing. `old` must be there as often as `expected` says."""
        wanted = list(replacements)
        if old is not None and new is not None:
            wanted.insert(0, Replacement(old=old, new=new, expected=expected))
        return decode(Edited, self._post("edit", body(path=octets(path), replacements=wanted)))

    def glob(
        self, path: Text, pattern: str, *, respects_ignore: bool | None = None, limit: int | None = None
    ) -> Listing:
        """Finds names below a directory, as `**/*.py`."""
        request = body(path=octets(path), pattern=pattern, respects_ignore=respects_ignore, limit=limit)
        return decode(Listing, self._post("glob", request, is_repeatable=True))

    def grep(
        self,
        path: Text,
        pattern: str,
        *,
        is_literal: bool | None = None,
        ignores_case: bool | None = None,
        include: Sequence[str] | None = None,
        respects_ignore: bool | None = None,
        limit: int | None = None,
    ) -> Found:
        """Finds lines in a file, or in those below a directory."""
        request = body(
            path=octets(path),
            pattern=pattern,
            is_literal=is_literal,
            ignores_case=ignores_case,
            include=include,
            respects_ignore=respects_ignore,
            limit=limit,
        )
        return decode(Found, self._post("grep", request, is_repeatable=True))

    def watch(self, path: Text, *, recursive: bool | None = None) -> Iterator[FileEvent]:
        """Iterates what changes in a directory, until whoever reads stops; it begins with `ready`."""
        fields = query(path=raw(path), recursive=recursive)
        for event in self._connection.events(f"{self._path}/watch", query=fields):
            data = json.loads(event.data) if event.data else {}
            if event.kind in ("ready", "changed", "overflowed", "unwatched"):
                yield decode(FileEvent, {"kind": event.kind, **(data if isinstance(data, dict) else {})})
            elif event.kind == "lost":
                raise errors.from_wire(data)
            elif event.kind == "end" and data.get("reason") != "shutdown":
                return

    def upload(
        self, local: str | os.PathLike[str], path: Text, *, make_parents: bool = True
    ) -> FileStat | Unpacked:
        """Copies a local file or directory to `path`, with flat memory; links are copied as links."""
        source = Path(local)
        if io.block(source.is_dir):
            response = self._connection.request(
                "PUT",
                f"{self._path}/archive",
                query=query(path=raw(path), make_parents=make_parents),
                content=io.pieces(_tar.pack(source)),
                headers={"content-type": "application/x-tar"},
            )
            return decode(Unpacked, response.json())
        mode = (io.block(source.stat)).st_mode & 0o777
        file = io.block(lambda: source.open("rb"))
        with file:
            return self.write(path, file, mode=f"{mode:04o}", make_parents=make_parents)

    def download(self, path: Text, local: str | os.PathLike[str]) -> tuple[str, ...]:
        """Copies a file or directory to `local`, with flat memory.

        What comes from a sandbox is not trusted: links that lead out of `local`, and what else would reach
        elsewhere, are left out; their names are the result.
        """
        target = Path(local)
        found = self.stat(path, follow=True)
        if found.kind != "directory":
            partial = target.with_name(f".{target.name}.partial")
            try:
                with partial.open("wb") as file:
                    for piece in self.stream(path):
                        file.write(piece)
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)
            return ()
        with tempfile.TemporaryFile() as archive:
            try:
                with self._connection.stream(f"{self._path}/archive", query=query(path=raw(path))) as response:
                    for piece in response.iter_raw():
                        archive.write(piece)
            except httpx.TransportError as cause:
                raise self._connection.failure(cause) from cause
            archive.seek(0)
            return tuple(io.block(lambda: _tar.unpack(archive, target)))


def check_version(response: httpx.Response, known: tuple[int, int] | None) -> tuple[int, int] | None:
    """Tells whether a file that is read on is the one whose beginning was read."""
    text = response.headers.get("atoll-stat")
    if text is None:
        return known
    stat = json.loads(text)
    found = (stat["modified_us"], stat["bytes"])
    if known is not None and known != found:
        raise errors.Conflict(
            "the file changed while it was read",
            took_effect="no",
            retry="safe",
            next_step="read it again from its beginning",
        )
    return found
