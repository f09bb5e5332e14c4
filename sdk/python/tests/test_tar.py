"""Archives that come from sandboxes, which are not trusted."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from atoll import _tar

Entry = tuple[str, bytes, str]


def archive(*entries: Entry) -> io.BytesIO:
    """An archive of names with their type and content, or what they lead to."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, kind, what in entries:
            member = tarfile.TarInfo(name)
            member.type = kind
            member.mode = 0o6777
            if kind == tarfile.REGTYPE:
                member.size = len(what)
            else:
                member.linkname = what
            tar.addfile(member, io.BytesIO(what.encode()) if kind == tarfile.REGTYPE else None)
    made.seek(0)
    return made


def naive(source: io.BytesIO, directory: Path) -> None:
    """Unpacks as names say; the control of what is refused."""
    with tarfile.open(fileobj=source) as tar:
        for member in tar:
            target = directory / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            if member.issym():
                target.symlink_to(member.linkname)
            elif member.islnk():
                target.hardlink_to(directory / member.linkname)
            elif member.isreg():
                content = tar.extractfile(member)
                assert content is not None
                target.write_bytes(content.read())


def is_written(outside: Path, inside: Path) -> bool:
    return (outside / "made").exists()


def is_read(outside: Path, inside: Path) -> bool:
    return any(path.is_file() and path.read_bytes() == b"secret" for path in inside.rglob("*"))


ESCAPES: dict[str, tuple[Callable[[Path, Path], bool], list[Entry]]] = {
    "by-dots": (is_written, [("../outside/made", tarfile.REGTYPE, "x")]),
    "through-a-link": (
        is_written,
        [("link", tarfile.SYMTYPE, "../outside"), ("link/made", tarfile.REGTYPE, "x")],
    ),
    "a-link-out": (is_read, [("link", tarfile.SYMTYPE, "../outside/secret")]),
    "a-hard-link-out": (is_read, [("link", tarfile.LNKTYPE, "../outside/secret")]),
    "a-hard-link-through-a-link": (
        is_read,
        [("to", tarfile.SYMTYPE, "../outside"), ("link", tarfile.LNKTYPE, "to/secret")],
    ),
    "a-chain-of-links": (
        is_read,
        [
            ("a/b/up", tarfile.SYMTYPE, "../.."),
            ("link", tarfile.SYMTYPE, "a/b/up/../outside/secret"),
        ],
    ),
}


@pytest.mark.parametrize("name", ESCAPES)
def test_nothing_reaches_out(name: str, tmp_path: Path) -> None:
    reached, entries = ESCAPES[name]
    for run in ("control", "ours"):
        outside, inside = tmp_path / run / "outside", tmp_path / run / "inside"
        outside.mkdir(parents=True)
        inside.mkdir()
        (outside / "secret").write_text("secret")
        if run == "control":
            naive(archive(*entries), inside)
            assert reached(outside, inside), "the archive is harmless"
        else:
            left_out = _tar.unpack(archive(*entries), inside)
            assert not reached(outside, inside)
            assert not (outside / "made").exists()
            assert left_out


def test_absolute_names_and_devices_are_left_out(tmp_path: Path) -> None:
    entries = [(f"{tmp_path}/made", tarfile.REGTYPE, "x"), ("pipe", tarfile.FIFOTYPE, ""), ("link", tarfile.SYMTYPE, "/")]
    assert _tar.unpack(archive(*entries), tmp_path / "in") == [f"{tmp_path}/made", "pipe", "link"]
    assert list((tmp_path / "in").iterdir()) == []


def test_a_directory_that_is_there_is_not_left_by_a_link_in_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/link").symlink_to(tmp_path)
    assert _tar.unpack(archive(("link/made", tarfile.REGTYPE, "x")), tmp_path / "in") == ["link/made"]
    assert not (tmp_path / "made").exists()
    # A link as the last part is replaced, not written through.
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "in/file").symlink_to(tmp_path / "kept")
    assert _tar.unpack(archive(("file", tarfile.REGTYPE, "new")), tmp_path / "in") == []
    assert (tmp_path / "kept").read_text() == "kept"
    assert (tmp_path / "in/file").read_text() == "new"


def test_what_is_packed_is_unpacked(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "bin/empty").mkdir(parents=True)
    (source / "bin/run").write_text("#!/bin/sh\n")
    (source / "bin/run").chmod(0o755)
    (source / "über").write_bytes(bytes(range(256)) * 3000)
    (source / "bin/link").symlink_to("../über")
    (source / "here").symlink_to(".")
    packed = io.BytesIO(b"".join(_tar.pack(source)))
    assert _tar.unpack(packed, target) == []
    names = sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if "here/" not in path.as_posix())
    assert names == ["bin", "bin/empty", "bin/link", "bin/run", "here", "über"]
    assert (target / "bin/link").read_bytes() == (source / "über").read_bytes()
    assert (target / "bin/run").stat().st_mode & 0o7777 == 0o755
    assert int((target / "über").stat().st_mtime) == int((source / "über").stat().st_mtime)


def test_a_directory_is_not_replaced_by_what_is_none(tmp_path: Path) -> None:
    entries = [("a/b", tarfile.REGTYPE, "x"), ("a", tarfile.REGTYPE, "y"), ("a", tarfile.SYMTYPE, "b"), ("a/b/c", tarfile.REGTYPE, "")]
    assert _tar.unpack(archive(*entries), tmp_path) == ["a", "a/b/c", "a"]
    assert (tmp_path / "a/b").read_text() == "x"


def test_a_second_name_is_the_same_file_and_nobody_else_may_write(tmp_path: Path) -> None:
    entries = [("a", tarfile.REGTYPE, "x"), ("d/b", tarfile.LNKTYPE, "a"), ("c", tarfile.LNKTYPE, "none")]
    assert _tar.unpack(archive(*entries), tmp_path) == ["c"]
    assert (tmp_path / "d/b").samefile(tmp_path / "a")
    assert (tmp_path / "a").stat().st_mode & 0o7777 == 0o755
