"""One sandbox."""

from __future__ import annotations

from collections.abc import Iterator, Callable, Mapping, Sequence
from typing import Any

from .. import errors
from .._wire import Text, body, decode, milliseconds, query, segment, start_exec
from ..models import (
    Archived,
    DenialPage,
    Event,
    ExecResult,
    Lifecycle,
    Limits,
    Missed,
    Port,
    Preview,
    SandboxHealth,
    SandboxInfo,
    Service,
    ServiceStatus,
    StreamName,
    Timeline,
    Visibility,
    Waited,
)
from ..network import NetworkPolicy
from ..usage import Budget, Usage
from ..volumes import VolumeMount
from . import snapshots
from .connection import Connection
from .events import follow
from .execs import Exec, Execs
from .files import Files
from .git import Git
from .snapshots import Forks, Snapshot


class Sandbox:
    """A sandbox.

    As a context manager it deletes the sandbox at the end, if it was made by `create` or a fork; one that was there, or
    that was asked for by name, is left as it is.
    """

    def __init__(self, connection: Connection, info: SandboxInfo, *, is_own: bool = False) -> None:
        self._connection = connection
        self._path = f"/v1/sandboxes/{segment(info.id)}"
        self._is_own = is_own
        self.info = info
        """How it was when it was last asked for."""
        self.execs = Execs(connection, self._path)
        """Its commands."""
        self.files = Files(connection, self._path)
        """Its files."""
        self.git = Git(connection, self._path)
        """Its git repositories."""

    @property
    def id(self) -> str:
        """Its id, which nothing else ever has."""
        return self.info.id

    @property
    def name(self) -> str | None:
        """Its name, if it has one."""
        return self.info.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name or self.id} {self.info.state}>"

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self._is_own:
            return
        try:
            self.delete()
        except errors.NotFound:
            pass
        except errors.AtollError:
            # What went wrong first is what has to be known.
            if error is None:
                raise

    def _change(self, method: str, verb: str, request: Any = None) -> SandboxInfo:
        response = self._connection.request(method, f"{self._path}{verb}", body=request)
        return self._take(response.json())

    def _take(self, answer: Any) -> SandboxInfo:
        self.info = decode(SandboxInfo, answer)
        return self.info

    def refresh(self) -> SandboxInfo:
        """Asks how it is."""
        return self._change("GET", "")

    def start(self) -> SandboxInfo:
        """Lets it run again after a stop; the same as `resume`."""
        return self._change("POST", "/resume")

    def resume(self) -> SandboxInfo:
        """Lets it run again, whether it was paused or stopped."""
        return self._change("POST", "/resume")

    def pause(self) -> SandboxInfo:
        """Freezes its processes; they keep their memory."""
        return self._change("POST", "/pause")

    def stop(self) -> SandboxInfo:
        """Asks its processes to end, and kills those that have not after a grace."""
        return self._change("POST", "/stop")

    def kill(self) -> SandboxInfo:
        """Kills its processes."""
        return self._change("POST", "/kill")

    def archive(self, *, stop: bool = False) -> Archived:
        """Puts its files into the server's object storage, and takes them away from the server; `resume` brings them back.

        It has to be stopped, or is stopped first if `stop` says so.
        """
        fields = query(stop=stop or None)
        path = f"{self._path}/archive"
        response = self._connection.request("POST", path, query=fields, wait_seconds=snapshots.LONG_SECONDS)
        return decode(Archived, response.json())

    def delete(self, *, keep_archive: bool = False) -> SandboxInfo:
        """Deletes it; on return its name is free. The archive of one that is archived goes too, unless it is kept."""
        fields = query(keep_archive=keep_archive or None)
        response = self._connection.request("DELETE", self._path, query=fields)
        return self._take(response.json())

    def snapshot(
        self,
        *,
        labels: Mapping[str, str] | None = None,
        delete_after: float | None = None,
        keep_last: int | None = None,
    ) -> Snapshot:
        """Takes a snapshot of its files, to go back to and to make others of; `delete_after` is in seconds.

        Of those of this sandbox with exactly these labels, `keep_last` are kept with this one, and older ones deleted. If it runs it stands still meanwhile, and notices nothing but the time: `info` says how much, and how it was
        done.
        """
        return snapshots.take(self._connection, self._path, labels, delete_after, keep_last)

    def fork(
        self,
        *,
        count: int = 1,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        lifecycle: Lifecycle | None = None,
        budget: Budget | None = None,
        services: Sequence[Service] | None = None,
        network: NetworkPolicy | None = None,
        exec_ask: Sequence[str] | None = None,
        volumes: Sequence[VolumeMount] | None = None,
        snapshot_labels: Mapping[str, str] | None = None,
        snapshot_delete_after: float | None = None,
    ) -> Forks:
        """Takes a snapshot, which stays, and makes sandboxes of it; see `Snapshot.fork`."""
        sandbox = body(
            name=name,
            env=env,
            labels=labels,
            limits=limits,
            lifecycle=lifecycle,
            budget=budget,
            services=services,
            network=network,
            exec_ask=exec_ask,
            volumes=volumes,
        )
        snapshot = body(labels=snapshot_labels, delete_after_ms=milliseconds(snapshot_delete_after))
        return snapshots.fork(self._connection, self._path, count, sandbox, snapshot)

    def restore(self, snapshot: Snapshot | str) -> SandboxInfo:
        """Puts it back to a snapshot: what it has kept since is gone. If it runs, it is started anew."""
        self.info = snapshots.restore(self._connection, self._path, snapshot)
        return self.info

    def set_lifecycle(self, lifecycle: Lifecycle) -> SandboxInfo:
        """Sets the times of its lifecycle, and begins its lease anew."""
        return self._change("PUT", "/lifecycle", body(**{"x": lifecycle})["x"])

    def set_budget(self, budget: Budget) -> SandboxInfo:
        """Gives it another budget, which may be empty. What it has used counts on."""
        return self._change("PUT", "/budget", body(**{"x": budget})["x"])

    def health(self) -> SandboxHealth:
        """Asks the sandbox itself how it is; it must run."""
        return decode(SandboxHealth, (self._connection.request("GET", f"{self._path}/health")).json())

    def timeline(self) -> Timeline:
        """Tells how long the stages of its creation took."""
        return decode(Timeline, (self._connection.request("GET", f"{self._path}/timeline")).json())

    def usage(self) -> Usage:
        """What it has used in its whole life, until now."""
        return decode(Usage, (self._connection.request("GET", f"{self._path}/usage")).json())

    def denials(self, *, cursor: int | None = None) -> DenialPage:
        """What it was refused on its way out since the server started, behind a denial's `seq`."""
        fields = query(cursor=cursor)
        response = self._connection.request("GET", f"{self._path}/denials", query=fields)
        return decode(DenialPage, response.json())

    def network(self) -> NetworkPolicy | None:
        """What it may reach; none where it was made without a network."""
        answer = (self._connection.request("GET", f"{self._path}/network")).json()
        return None if answer is None else decode(NetworkPolicy, answer)

    def set_network(self, policy: NetworkPolicy) -> NetworkPolicy:
        """Has it reach this and nothing else, at once: connections that are not allowed any more are broken off.

        Only a sandbox that was made with a network has one.
        """
        response = self._connection.request(
            "PUT", f"{self._path}/network", body=body(**{"x": policy})["x"], is_repeatable=True
        )
        return decode(NetworkPolicy, response.json())

    def events(self, *, after: int | None = None) -> Iterator[Event | Missed]:
        """Iterates what happens to it, from now on or behind the event of this number."""
        return follow(self._connection, after=after, sandbox=self.id)

    def exec(
        self,
        command: str | Sequence[Text],
        *,
        id: str | None = None,
        session: str | None = None,
        user: str | None = None,
        directory: Text | None = None,
        env: Mapping[str, str] | None = None,
        input: str | bytes | None = None,
        timeout: float | None = None,
        keep_bytes: int | None = None,
        on_disconnect: str | None = None,
        name: str | None = None,
        approval_timeout: float | None = None,
        check: bool = False,
        on_stdout: Callable[[bytes], object] | None = None,
        on_stderr: Callable[[bytes], object] | None = None,
    ) -> ExecResult:
        """Runs a command to its end.

        A string is run by a shell, a list is a program and its arguments. `timeout` is in seconds: then it is
        killed with all that it started, and what it printed is returned. Its standard input is closed unless there
        is `input`. `on_stdout` and `on_stderr` are called with output as it comes. With `check`, `CommandFailed` is
        raised unless it exits with 0. It is never run twice, also where connections break; if nobody knows how it
        ended, `Lost` is raised.

        One that has to be approved (`exec_ask`) waits for somebody who decides, half a minute or, if that is longer,
        `approval_timeout` seconds. Then `ApprovalPending` is raised, or before `ApprovalDenied` or `ApprovalExpired`.
        """
        is_told = input is not None or on_stdout is not None or on_stderr is not None
        request = start_exec(
            command,
            id=id,
            session=session,
            user=user,
            directory=directory,
            env=env,
            stdin=None if input is None else "pipe",
            terminal=None,
            timeout=timeout,
            keep_bytes=keep_bytes,
            on_disconnect=on_disconnect,
            name=name,
        )
        if is_told:
            started = self.execs.start_as(request, approval_timeout)
            result = self.execs.run_told(started, input, on_stdout, on_stderr)
        else:
            result = self.execs.run(request, approval_timeout)
        if check and not result.ok:
            raise errors.CommandFailed(result)
        return result

    def session(self, name: str) -> Session:
        """A shell of this name, which keeps directory, variables and functions from one command to the next."""
        return Session(self, name)

    def terminal(
        self, command: str | Sequence[Text] = ("/bin/sh",), *, rows: int = 24, columns: int = 80, **options: Any
    ) -> Exec:
        """Starts a command in a terminal: `write` types, `logs(follow=True)` is what it shows, `resize` resizes.

        It goes on when nobody looks; `execs.get` finds it again.
        """
        return self.execs.start(command, terminal=(rows, columns), **options)

    def ports(self) -> tuple[Port, ...]:
        """The ports on which something listens or that are exposed."""
        found = (self._connection.request("GET", f"{self._path}/ports")).json()["ports"]
        return tuple(decode(Port, one) for one in found)

    def expose(
        self, port: int, *, visibility: Visibility | None = None, expires_in: float | None = None
    ) -> Preview:
        """Exposes a port; the answer's `url` is for browsers. `expires_in` is in seconds."""
        response = self._connection.request(
            "POST",
            f"{self._path}/ports/{port}/expose",
            body=body(visibility=visibility, expires_in_ms=milliseconds(expires_in)),
            is_repeatable=True,
        )
        return decode(Preview, response.json())

    def unexpose(self, port: int) -> None:
        """Takes a port back."""
        self._connection.request("DELETE", f"{self._path}/ports/{port}/expose")

    def _wait(self, what: Any, timeout: float) -> Waited:
        response = self._connection.request(
            "POST",
            f"{self._path}/wait",
            body={"for": what, "timeout_ms": milliseconds(timeout)},
            is_repeatable=True,
            wait_seconds=timeout,
        )
        return decode(Waited, response.json())

    def wait_for_port(self, port: int, *, timeout: float = 60.0) -> Waited:
        """Waits until something listens on a port; `TimedOut` is raised if nothing does after `timeout` seconds."""
        return self._wait({"port": port}, timeout)

    def wait_for_log(
        self, command: Exec | str, pattern: str, *, stream: StreamName | None = None, timeout: float = 60.0
    ) -> Waited:
        """Waits until a command prints a line in which this regular expression is found."""
        id = command if isinstance(command, str) else command.id
        return self._wait({"log": body(exec=id, pattern=pattern, stream=stream)}, timeout)

    def wait_for_http(
        self, port: int, *, path: str | None = None, status: int | None = None, timeout: float = 60.0
    ) -> Waited:
        """Waits until a port answers HTTP with this status, or with any below 500."""
        return self._wait({"http": body(port=port, path=path, status=status)}, timeout)

    def services(self) -> tuple[ServiceStatus, ...]:
        """How the services are that it was made with."""
        found = (self._connection.request("GET", f"{self._path}/services")).json()["services"]
        return tuple(decode(ServiceStatus, one) for one in found)

    def restart_service(self, name: str) -> tuple[ServiceStatus, ...]:
        """Starts a service anew, and tells how all of them are."""
        response = self._connection.request("POST", f"{self._path}/services/{segment(name)}/restart")
        return tuple(decode(ServiceStatus, one) for one in response.json()["services"])


class Session:
    """A shell of a sandbox that keeps what the command before left."""

    def __init__(self, sandbox: Sandbox, name: str) -> None:
        self._sandbox = sandbox
        self.name = name
        """Its name."""

    def exec(self, shell: str, **options: Any) -> ExecResult:
        """Runs shell text to its end, with the options of `Sandbox.exec`."""
        return self._sandbox.exec(shell, session=self.name, **options)

    def start(self, shell: str, **options: Any) -> Exec:
        """Starts shell text, with the options of `Execs.start`."""
        return self._sandbox.execs.start(shell, session=self.name, **options)
