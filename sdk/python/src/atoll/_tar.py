"""Directories as tar archives, written and read with flat memory."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

PIECE_BYTES = 256 << 10


def pack(directory: Path) -> Iterator[bytes]:
    """Gives the archive of what is in `directory`, piece by piece.

    Owners are left out; sockets, pipes and devices too. Links are packed as links.
    """
    for path in _walk(directory):
        info = _header(path, path.relative_to(directory).as_posix())
        if info is None:
            continue
        if not info.isreg():
            yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
            continue
        with path.open("rb") as file:
            # The length that is promised is that of the file that was opened.
            info.size = os.fstat(file.fileno()).st_size
            yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
            yield from _content(file, info)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _walk(directory: Path) -> Iterator[Path]:
    for entry in sorted(directory.iterdir()):
        yield entry
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry)


def _header(path: Path, name: str) -> tarfile.TarInfo | None:
    info = tarfile.TarInfo(name)
    status = path.lstat()
    info.mode = status.st_mode & 0o777
    info.mtime = status.st_mtime
    if path.is_symlink():
        info.type = tarfile.SYMTYPE
        info.linkname = os.readlink(path)
    elif path.is_dir():
        info.type = tarfile.DIRTYPE
    elif not path.is_file():
        return None
    return info


def _content(file: IO[bytes], info: tarfile.TarInfo) -> Iterator[bytes]:
    left = info.size
    while left:
        piece = file.read(min(left, PIECE_BYTES))
        if not piece:
            raise OSError(f"{file.name} became shorter while it was read")
        left -= len(piece)
        yield piece
    yield bytes(-info.size % tarfile.BLOCKSIZE)


def unpack(archive: IO[bytes], directory: Path) -> list[str]:
    """Unpacks into `directory`, and gives the names that were left out because they lead out of it."""
    directory.mkdir(parents=True, exist_ok=True)
    left_out: list[str] = []

    def judge(member: tarfile.TarInfo, destination: str) -> tarfile.TarInfo | None:
        # What comes from a sandbox is not trusted: nothing is written elsewhere, and no link leads there.
        try:
            return tarfile.data_filter(member, destination)
        except tarfile.FilterError:
            left_out.append(member.name)
            return None

    with tarfile.open(fileobj=archive, mode="r|") as tar:
        tar.extractall(directory, filter=judge)
    return left_out
