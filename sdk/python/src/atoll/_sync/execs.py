"""Commands of a sandbox."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Callable, Mapping, Sequence
from typing import Any

import httpx

from .. import errors
from .._wire import Text, body, decode, milliseconds, printed, query, segment, start_exec
from ..models import (
    Dropped,
    ExecEvent,
    ExecInfo,
    ExecResult,
    Finished,
    Output,
    Started,
    StreamName,
)
from . import io
from .connection import TRIES, Connection, pause

WAIT_SECONDS = 20.0
"""How long one request waits for an end; longer waits are several requests."""

CONNECTED_SECONDS = 3600.0
"""How long the one request waits whose command is to end with it."""

ASK_AGAIN_SECONDS = 0.5
"""How long to pause before a command is asked for again whose approval is pending."""


class Exec:
    """A command that was started, and goes on whether anybody looks or not."""

    def __init__(self, connection: Connection, execs_path: str, info: ExecInfo) -> None:
        self._connection = connection
        self._path = f"{execs_path}/{segment(info.id)}"
        self._fed = info.fed_bytes
        self.info = info
        """How it was when it was last asked for."""

    @property
    def id(self) -> str:
        """Its id."""
        return self.info.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.info.state}>"

    def _post(self, verb: str, request: Any) -> ExecInfo:
        response = self._connection.request("POST", f"{self._path}/{verb}", body=request)
        return self._take(response.json())

    def _take(self, answer: Any) -> ExecInfo:
        self.info = decode(ExecInfo, answer)
        return self.info

    def refresh(self) -> ExecInfo:
        """Asks how it is."""
        return self._take((self._connection.request("GET", self._path)).json())

    def wait(self, timeout: float | None = None) -> ExecResult:
        """Waits for its end, at most `timeout` seconds, and gives what it printed.

        Raises `StillRunning` if the time is over, and `Lost` if nobody knows how it ended.
        """
        left = timeout
        while True:
            seconds = WAIT_SECONDS if left is None else min(left, WAIT_SECONDS)
            response = self._connection.request(
                "GET",
                f"{self._path}/result",
                query=query(wait_ms=milliseconds(seconds)),
                wait_seconds=seconds,
            )
            result = decode(ExecResult, response.json())
            self.info = result.exec
            if is_over(result):
                return result
            if left is not None:
                left -= seconds
                if left <= 0:
                    raise still_running(self.id)

    def events(self, *, stdout: int = 0, stderr: int = 0) -> Iterator[ExecEvent]:
        """Iterates what happens, from these offsets of its output to its end.

        It goes on where the connection broke: nothing comes twice, and nothing is left out but what an event
        `Dropped` names.
        """
        told = False
        for event in self._connection.events(
            f"{self._path}/events", query=query(stdout=stdout, stderr=stderr, follow=True)
        ):
            data = json.loads(event.data)
            if event.kind == "started":
                if not told:
                    yield Started(exec=self._take(data))
                told = True
            elif event.kind == "output":
                yield Output(stream=data["stream"], offset=data["offset"], data=printed(data))
            elif event.kind == "dropped":
                yield decode(Dropped, data)
            elif event.kind == "ended":
                yield Finished(exec=self._take(data))
                return
            elif event.kind == "lost":
                raise errors.from_wire(data)

    def logs(
        self, stream: StreamName = "stdout", *, offset: int = 0, follow: bool = False
    ) -> Iterator[bytes]:
        """Iterates the bytes of one stream from `offset` on; with `follow` to its end, else what is there.

        Raises `OutputDropped` at bytes that are not kept any more.
        """
        failures = 0
        while True:
            is_silent = False
            try:
                with self._connection.stream(
                    f"{self._path}/{stream}", query=query(offset=offset, follow=follow)
                ) as response:
                    for piece in response.iter_raw():
                        failures = 0
                        offset += len(piece)
                        yield piece
                    return
            except httpx.ReadTimeout:
                # Silence is no fault: a command may print nothing for long.
                is_silent = True
            except httpx.TransportError as cause:
                failures += 1
                if failures >= TRIES:
                    raise self._connection.failure(cause) from cause
            if not is_silent:
                self._judge_break(stream, offset)
                io.sleep(pause(failures))

    def _judge_break(self, stream: StreamName, offset: int) -> None:
        """A body also breaks off where bytes are missing, and where the command is lost."""
        info = self.refresh()
        if info.lost is not None:
            raise errors.from_wire(info.lost)
        if not getattr(info, stream).dropped_bytes:
            return
        for event in self._connection.events(
            f"{self._path}/events", query=query(**{"stdout": 0, "stderr": 0, stream: offset, "follow": False})
        ):
            data = json.loads(event.data)
            if event.kind == "dropped" and data["stream"] == stream:
                raise errors.OutputDropped(stream, data["from"], data["to"])
            if event.kind in ("output", "ended", "lost", "end"):
                return

    def write(self, data: str | bytes) -> ExecInfo:
        """Writes to its standard input. What arrived before a connection broke is not written again."""
        return self._feed(data.encode() if isinstance(data, str) else data, keep_open=True)

    def close_stdin(self) -> ExecInfo:
        """Ends its standard input."""
        return self._feed(b"", keep_open=False)

    def _feed(self, data: bytes, *, keep_open: bool) -> ExecInfo:
        # The guest leaves out what it already has, so the same offset and bytes can be sent again.
        response = self._connection.request(
            "POST",
            f"{self._path}/stdin",
            query=query(offset=self._fed, keep_open=keep_open),
            content=data,
            headers={"content-type": "application/octet-stream"},
            is_repeatable=True,
        )
        self._fed += len(data)
        return self._take(response.json())

    def signal(self, signal: str | int, *, target: str | None = None) -> ExecInfo:
        """Sends a signal, as `TERM`, `SIGTERM` or 15, to its `group`, its `process` or its `session`."""
        return self._post("signal", body(signal=signal, target=target))

    def cancel(self, *, signal: str | int | None = None, grace: float | None = None) -> ExecInfo:
        """Asks it to end, kills it after `grace` seconds, and gives how it ended."""
        response = self._connection.request(
            "POST",
            f"{self._path}/cancel",
            body=body(signal=signal, grace_ms=milliseconds(grace)),
            wait_seconds=5.0 if grace is None else grace,
        )
        return self._take(response.json())

    def resize(self, rows: int, columns: int) -> ExecInfo:
        """Gives its terminal another size."""
        return self._post("resize", {"rows": rows, "columns": columns})

    def forget(self) -> None:
        """Forgets it and its output; it must have ended."""
        self._connection.request("DELETE", self._path)


class Execs:
    """The commands of one sandbox."""

    def __init__(self, connection: Connection, sandbox_path: str) -> None:
        self._connection = connection
        self._path = f"{sandbox_path}/execs"

    def start(
        self,
        command: str | Sequence[Text],
        *,
        id: str | None = None,
        session: str | None = None,
        user: str | None = None,
        directory: Text | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        terminal: tuple[int, int] | None = None,
        timeout: float | None = None,
        keep_bytes: int | None = None,
        name: str | None = None,
        approval_timeout: float | None = None,
    ) -> Exec:
        """Starts a command, and returns at once. See `Sandbox.exec` for the arguments."""
        request = start_exec(
            command,
            id=id,
            session=session,
            user=user,
            directory=directory,
            env=env,
            stdin=stdin,
            terminal=terminal,
            timeout=timeout,
            keep_bytes=keep_bytes,
            on_disconnect=None,
            name=name,
        )
        return self.start_as(request, approval_timeout)

    def start_as(self, request: dict[str, Any], approval_timeout: float | None = None) -> Exec:
        """Starts what the request says; its id makes it safe to send again."""
        response = self._ask(approval_timeout, body=request, is_repeatable=True)
        return Exec(self._connection, self._path, decode(ExecInfo, response.json()))

    def list(self) -> tuple[Exec, ...]:
        """All that the sandbox remembers, in the order of their start."""
        found = (self._connection.request("GET", self._path)).json()["execs"]
        return tuple(Exec(self._connection, self._path, decode(ExecInfo, one)) for one in found)

    def get(self, id: str) -> Exec:
        """The command of this id."""
        response = self._connection.request("GET", f"{self._path}/{segment(id)}")
        return Exec(self._connection, self._path, decode(ExecInfo, response.json()))

    def _ask(self, approval_timeout: float | None, **request: Any) -> httpx.Response:
        """Asks for a command, and again for as long as its approval is pending and that may take."""
        end = time.monotonic() + (approval_timeout or 0.0)
        while True:
            try:
                return self._connection.request("POST", self._path, **request)
            except errors.ApprovalPending:
                if time.monotonic() + ASK_AGAIN_SECONDS >= end:
                    raise
                io.sleep(ASK_AGAIN_SECONDS)

    def run(self, request: dict[str, Any], approval_timeout: float | None = None) -> ExecResult:
        """Runs a command to its end."""
        is_killed = request.get("on_disconnect") == "kill"
        seconds = CONNECTED_SECONDS if is_killed else WAIT_SECONDS
        response = self._ask(
            approval_timeout,
            query=query(wait_ms=milliseconds(seconds)),
            body=request,
            # Where the connection broke, what it was to end with has ended.
            is_repeatable=not is_killed,
            wait_seconds=seconds,
        )
        answer = response.json()
        result = decode(ExecResult, answer)
        if is_over(result):
            return result
        return Exec(self._connection, self._path, result.exec).wait()

    def run_told(
        self,
        command: Exec,
        input: str | bytes | None,
        on_stdout: Callable[[bytes], object] | None,
        on_stderr: Callable[[bytes], object] | None,
    ) -> ExecResult:
        """Sees a command to its end that is fed, or whose output is told as it comes."""
        if input is not None:
            try:
                command._feed(input.encode() if isinstance(input, str) else input, keep_open=False)
            except errors.WrongState:
                # It has ended, or closed its input, without having read all of it: as in a pipe.
                pass
        if on_stdout is not None or on_stderr is not None:
            for event in command.events():
                if isinstance(event, Output):
                    tell = on_stdout if event.stream == "stdout" else on_stderr
                    if tell is not None:
                        tell(event.data)
        return command.wait()


def is_over(result: ExecResult) -> bool:
    """Whether it ended; raises if nobody knows how."""
    if result.exec.state == "lost":
        raise errors.from_wire(result.exec.lost or {"code": "lost", "message": "what became of the command is not known"})
    return result.exec.state == "ended"


def still_running(id: str) -> errors.StillRunning:
    """Says that a wait was over first."""
    return errors.StillRunning(
        f"{id} runs longer than was waited for",
        took_effect="yes",
        retry="safe",
        next_step="wait again, or cancel it",
    )
