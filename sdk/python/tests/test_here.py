"""What scenarios cannot say, since it is about this machine or about one SDK alone."""

from __future__ import annotations

from pathlib import Path

import atoll
import pytest

from serving import ROOT, Server


def test_directories_are_copied_in_and_out(server: Server, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "bin").mkdir(parents=True)
    (source / "bin/run").write_text("#!/bin/sh\necho ran\n")
    (source / "bin/run").chmod(0o755)
    (source / "run").symlink_to("bin/run")
    with atoll.Atoll(server.host) as client, client.create() as sandbox:
        sandbox.files.upload(source, "/home/user/copy")
        assert sandbox.exec("copy/run", directory="/home/user").stdout == "ran\n"
        sandbox.exec("ln -s /etc/passwd copy/out && echo made > copy/made", directory="/home/user", check=True)
        assert sandbox.files.download("/home/user/copy", tmp_path / "back") == ("out",)
        assert sandbox.files.download("/home/user/copy/made", tmp_path / "file") == ()
    assert (tmp_path / "file").read_text() == "made\n"
    assert {path.name for path in (tmp_path / "back").rglob("*")} == {"bin", "run", "made"}
    assert (tmp_path / "back/run").resolve() == (tmp_path / "back/bin/run").resolve()
    assert (tmp_path / "back/bin/run").stat().st_mode & 0o777 == 0o755


def test_a_sandbox_begins_with_files_of_this_machine(server: Server, tmp_path: Path) -> None:
    (tmp_path / "files/in").mkdir(parents=True)
    (tmp_path / "files/in/file").write_text("x" * 1_000_000)
    with atoll.Atoll(server.host) as client:
        workspace = atoll.Workspace(path="/home/user/app")
        with client.create(files=tmp_path / "files", workspace=workspace) as sandbox:
            assert sandbox.info.workspace == "/home/user/app"
            assert sandbox.files.stat("/home/user/app/in/file").bytes == 1_000_000
        named = client.get_or_create("with-files", files=tmp_path / "files")
        assert named.info.workspace is not None
        assert named.files.exists(f"{named.info.workspace}/in/file")
        named.delete()


def test_the_readme_shows_the_demo() -> None:
    demo = (ROOT / "sdk/python/examples/goose.py").read_text()
    assert f"```python\n{demo}```\n" in (ROOT / "README.md").read_text()
    assert len([line for line in demo.splitlines() if line]) == 8


def test_a_sandbox_tells_how_it_is(server: Server) -> None:
    with atoll.Atoll(server.host) as client, client.create() as sandbox:
        health = sandbox.health()
        assert health.status == "ok"
        assert health.guest is not None and health.guest.running_execs == 0
        assert 0 < health.guest.descriptors.used < health.guest.descriptors.limit


def test_a_command_that_ends_with_its_connection_keeps_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atoll._sync.execs.WAIT_SECONDS", 0.2)
    with atoll.Atoll(server.host) as client, client.create() as sandbox:
        for on_disconnect in ("go_on", "kill"):
            result = sandbox.exec("sleep 1; echo done", on_disconnect=on_disconnect)
            assert (result.stdout, result.exit_code) == ("done\n", 0)
        # As it would be if the one request did not wait for so long.
        monkeypatch.setattr("atoll._sync.execs.CONNECTED_SECONDS", 0.2)
        assert sandbox.exec("sleep 60; echo done", on_disconnect="kill").signal is not None
