"""Chromium without a window, spoken to over two pipes: the DevTools protocol, and nothing to install for it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serving import DEADLINE_SECONDS, ORDINARY, wait_until

FLAGS = """
    --headless --remote-debugging-pipe --no-first-run --no-default-browser-check --disable-gpu --disable-dev-shm-usage
    --disable-background-networking --disable-component-update --disable-sync --no-pings --password-store=basic
""".split()


class Page:
    """One page in a browser of its own, by an ordinary user: as root it would have to be without its sandbox."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="atoll-browser-"))
        self.log = self._home / "log"
        self._answers: dict[int, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        """What the page told since it was opened."""
        self._more = threading.Condition()
        self._count = 0
        self._pid = self._start()
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = str(self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        for domain in ("Page", "Runtime", "Network"):
            self.ask(f"{domain}.enable")

    def _start(self) -> int:
        command = ["chromium", *FLAGS, f"--user-data-dir={self._home}/data", "about:blank"]
        if os.getuid() == 0:
            os.chown(self._home, ORDINARY, ORDINARY)
            command = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups", *command]
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # The browser wants the numbers 3 and 4, which may be taken here.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (theirs_in, theirs_out)]
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT, 0o600)
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            *((os.POSIX_SPAWN_DUP2, end, number) for end, number in zip([log, log, *ends], range(1, 5), strict=True)),
        ]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._home)}
        pid = os.posix_spawnp(command[0], command, environment, file_actions=actions, setsigdef=[signal.SIGPIPE])
        for end in (theirs_in, theirs_out, *ends, log):
            os.close(end)
        self._out = os.fdopen(ours_out, "wb", buffering=0)
        self._in = os.fdopen(ours_in, "rb")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return pid

    def _read(self) -> None:
        """Messages are JSON, each with a zero behind it."""
        rest = b""
        while piece := self._in.read1(65536):
            *whole, rest = (rest + piece).split(b"\0")
            with self._more:
                for message in map(json.loads, whole):
                    if "id" in message:
                        self._answers[message["id"]] = message
                    else:
                        self.events.append(message)
                self._more.notify_all()

    def ask(self, method: str, **params: Any) -> Any:
        """Sends a command and gives its result."""
        self._count += 1
        number = self._count
        session = {"sessionId": self._session} if hasattr(self, "_session") else {}
        self._out.write(json.dumps({"id": number, "method": method, "params": params, **session}).encode() + b"\0")
        with self._more:
            is_there = self._more.wait_for(lambda: number in self._answers, DEADLINE_SECONDS)
            assert is_there, f"{method} is not answered\n{self.log.read_text()}"
            answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer}"
        return answer["result"]

    def evaluate(self, expression: str) -> Any:
        """What an expression is in the page."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Waits until an expression is true in the page."""
        wait_until(expression, lambda: self.evaluate(f"Boolean({expression})"))

    def wait_for_event(self, what: str, is_it: Callable[[dict[str, Any]], bool]) -> None:
        """Waits until the page has told something."""
        wait_until(what, lambda: any(map(is_it, list(self.events))))

    def count(self, method: str) -> int:
        """How often the page told this."""
        return sum(event["method"] == method for event in list(self.events))

    def close(self) -> None:
        """Ends the browser, and removes all that it had."""
        try:
            self._out.write(json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
            self._reader.join(DEADLINE_SECONDS)
            if self._reader.is_alive():
                os.kill(self._pid, signal.SIGKILL)
        finally:
            self._out.close()
            os.waitpid(self._pid, 0)
            self._reader.join(DEADLINE_SECONDS)
            self._in.close()
            shutil.rmtree(self._home, ignore_errors=True)
