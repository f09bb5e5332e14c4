"""Directories as tar archives, written and read with flat memory."""

from __future__ import annotations

import errno
import os
import shutil
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
    """Unpacks into `directory`, and gives the names that were left out because they would reach out of it.

    What comes from a sandbox is not trusted. Directories are entered without following links, and links are made when
    all else is written; each leads up first and then only down, so that no chain of them leads out.
    """
    directory.mkdir(parents=True, exist_ok=True)
    left_out: list[str] = []
    links: list[tarfile.TarInfo] = []
    root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with tarfile.open(fileobj=archive, mode="r|") as tar:
            for member in tar:
                if member.issym():
                    links.append(member)
                elif not _extract(root, tar, member):
                    left_out.append(member.name)
        left_out += [link.name for link in links if not _link(root, link)]
    finally:
        os.close(root)
    return left_out


def _extract(root: int, tar: tarfile.TarFile, member: tarfile.TarInfo) -> bool:
    """Makes a directory, a file or a second name of one; False if that is not done."""
    parts = _parts(member.name)
    if parts is None or not (member.isdir() or member.isreg() or member.islnk()):
        return False
    if member.isdir():
        found = _enter(root, parts)
        if found is not None:
            os.close(found)
        return found is not None
    if not parts:
        return False
    parent = _enter(root, parts[:-1])
    if parent is None:
        return False
    try:
        if not _remove(parent, parts[-1]):
            return False
        return _again(root, parent, member, parts[-1]) if member.islnk() else _write(parent, tar, member, parts[-1])
    finally:
        os.close(parent)


def _write(parent: int, tar: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> bool:
    content = tar.extractfile(member)
    # Nobody else may write to it, and it has no set-user-ID bit.
    mode = member.mode & 0o755 | 0o600
    opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=parent)
    with open(opened, "wb") as file:
        if content is not None:
            shutil.copyfileobj(content, file, PIECE_BYTES)
        file.flush()
        os.utime(opened, (member.mtime, member.mtime))
    return True


def _again(root: int, parent: int, member: tarfile.TarInfo, name: str) -> bool:
    """Gives a file that was unpacked before another name."""
    parts = _parts(member.linkname)
    source = _enter(root, parts[:-1]) if parts else None
    if not parts or source is None:
        return False
    try:
        os.link(parts[-1], name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    finally:
        os.close(source)
    return True


def _link(root: int, link: tarfile.TarInfo) -> bool:
    parts = _parts(link.name)
    if not parts or not _leads_inside(link.linkname, len(parts) - 1):
        return False
    parent = _enter(root, parts[:-1])
    if parent is None:
        return False
    try:
        if not _remove(parent, parts[-1]):
            return False
        os.symlink(link.linkname, parts[-1], dir_fd=parent)
    finally:
        os.close(parent)
    return True


def _leads_inside(target: str, depth: int) -> bool:
    """Whether a link so deep leads up at first, not too far, and only down from there."""
    steps = [one for one in target.split("/") if one not in ("", ".")]
    up = next((at for at, one in enumerate(steps) if one != ".."), len(steps))
    return bool(target) and not target.startswith("/") and up <= depth and ".." not in steps[up:]


def _parts(name: str) -> list[str] | None:
    """The parts of a name below the directory; None if it is none."""
    parts = [one for one in name.split("/") if one not in ("", ".")]
    return None if name.startswith("/") or ".." in parts else parts


def _enter(root: int, parts: list[str]) -> int | None:
    """Opens a directory below, made where it is not there; None if a link or a file is in the way."""
    here = os.dup(root)
    for part in parts:
        try:
            try:
                os.mkdir(part, dir_fd=here)
            except FileExistsError:
                pass
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
        except NotADirectoryError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            raise
        finally:
            os.close(here)
        here = below
    return here


def _remove(parent: int, name: str) -> bool:
    """Takes away a file or link that is in the way; False if it is a directory."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        pass
    except IsADirectoryError:
        return False
    return True
