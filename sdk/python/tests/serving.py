"""A server of the tests' own, and a proxy in front of it that breaks connections."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import atoll

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[3]
ORDINARY = 54_321
DEADLINE_SECONDS = 20.0


def wait_until(what: str, look: Callable[[], T | None]) -> T:
    """Looks until there is something, and fails if there is nothing in time."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        threading.Event().wait(0.02)
    raise AssertionError(f"waited too long for {what}")


def skip(name: str, reason: str) -> None:
    """Notes that something was not tested, where `cargo xtask ci` looks."""
    line = f"SKIPPED {name}: {reason}\n"
    print(line, end="")
    folder = os.environ.get("ATOLL_TEST_SKIPS")
    if folder:
        Path(folder, f"{name}.txt").write_text(line)


def program() -> Path:
    """The program that is tested."""
    named = os.environ.get("ATOLL_PROGRAM")
    found = [Path(named)] if named else sorted(ROOT.glob("target/*/debug/atoll"))
    assert found, "build it first: cargo build -p atoll"
    return found[0]


class Internet:
    """What sandboxes of the tests can reach: `internet.py` in this folder."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-B", str(ROOT / "sdk/internet.py"), str(folder)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._child.stdout is not None
        said = json.loads(self._child.stdout.readline())
        self.port: int = said["port"]
        self.variables = {"ATOLL_DNS": said["dns"], "SSL_CERT_FILE": str(folder / "authority.pem")}

    def close(self) -> None:
        """Ends it."""
        self._child.communicate(timeout=DEADLINE_SECONDS)


class Server:
    """`atoll serve` as this user or, asked by root, as an ordinary one. At the end nothing is left of it."""

    def __init__(self, uid: int | None, *flags: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="atoll-sdk-"))
        self.socket = self.folder / "atoll.sock"
        self.log = self.folder / "log"
        self.internet = Internet(self.folder)
        copy = self.folder / "atoll"
        # An ordinary user may not reach where it was built.
        shutil.copy(program(), copy)
        command = [str(copy), "serve", "--state", str(self.folder / "state"), "--socket", str(self.socket)]
        command += ["--listen", "127.0.0.1:0", "--archive", f"file://{self.folder}/archives", *flags]
        if uid is not None:
            os.chown(self.folder, uid, uid)
            command = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *command]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **self.internet.variables}
        with self.log.open("wb") as log:
            self._child = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )
        self.host = f"unix://{self.socket}"
        wait_until("the server", self._answers)

    def _answers(self) -> bool:
        assert self._child.poll() is None, self.log.read_text()
        with atoll.Atoll(self.host) as client:
            try:
                return client.health().status != "failing"
            except atoll.ConnectionError:
                return False

    @property
    def url(self) -> str:
        """Where it listens on TCP."""
        found = re.search(r"address=(127\.0\.0\.1:\d+)", self.log.read_text())
        assert found, self.log.read_text()
        return f"http://{found[1]}"

    @property
    def key(self) -> str:
        """Its first key."""
        return (self.folder / "state/first-key").read_text().strip()

    def close(self) -> None:
        """Deletes its sandboxes, ends it and removes its folder."""
        try:
            with atoll.Atoll(self.host) as client:
                for sandbox in client.list():
                    sandbox.delete()
                wait_until("all to be removed", lambda: not any((self.folder / "state").glob("sandboxes/sbx_*")))
        finally:
            self._child.send_signal(signal.SIGTERM)
            self._child.wait(DEADLINE_SECONDS * 2)
            self.internet.close()
            shutil.rmtree(self.folder, ignore_errors=True)


class Proxy:
    """Passes connections on to a socket; each of the first ones is cut after so many bytes of answers."""

    def __init__(self, target: Path, cuts: list[int]) -> None:
        self._target = str(target)
        self._cuts = list(cuts)
        self.cut_count = 0
        """How many connections were cut."""
        self._folder = tempfile.TemporaryDirectory(prefix="atoll-proxy-")
        path = f"{self._folder.name}/proxy.sock"
        self.host = f"unix://{path}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            limit = self._cuts.pop(0) if self._cuts else None
            for work in (lambda c=client, s=server: self._up(c, s), lambda c=client, s=server, n=limit: self._down(c, s, n)):
                thread = threading.Thread(target=work, daemon=True)
                self._threads.append(thread)
                thread.start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while piece := client.recv(65536):
                server.sendall(piece)
            server.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _down(self, client: socket.socket, server: socket.socket, limit: int | None) -> None:
        try:
            while limit is None or limit > 0:
                piece = server.recv(65536 if limit is None else min(limit, 65536))
                if not piece:
                    break
                client.sendall(piece)
                limit = None if limit is None else limit - len(piece)
            else:
                self.cut_count += 1
        except OSError:
            pass
        for one in (client, server):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()

    def close(self) -> None:
        """Takes no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(DEADLINE_SECONDS)
        self._folder.cleanup()
