"""What the API answers with. Fields have the names and units of the HTTP API; ones that are new are ignored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from .usage import Budget
from .volumes import MountedVolume

State = Literal[
    "creating", "running", "pausing", "paused", "resuming", "stopping", "stopped", "archived", "failed", "deleted"
]
ExecState = Literal["running", "ended", "lost"]
EndCause = Literal["timed_out", "cancelled", "disconnected"]
StreamName = Literal["stdout", "stderr"]
Scope = Literal["read", "run", "admin"]
DenialProtocol = Literal["dns", "tcp", "tls", "http"]
Visibility = Literal["private", "public"]
Difference = Literal["added", "removed", "modified", "attributes", "type"]
SnapshotWay = Literal["rename", "subvolume", "reflink", "copy", "archive"]
Change = Literal["made", "modified", "written", "attributes", "removed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a sandbox may use at most."""

    memory_bytes: int | None = None
    cpus_milli: int | None = None
    pids: int | None = None
    disk_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """What happens to a sandbox when, in milliseconds."""

    lease_ms: int | None = None
    idle_stop_ms: int | None = None
    archive_after_ms: int | None = None
    delete_after_ms: int | None = None
    max_lifetime_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyLine:
    """A line that a service prints: a regular expression matches somewhere in it, on `stream` or on either."""

    pattern: str
    stream: Literal["stdout", "stderr"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """An answer to `GET path` on a port of the sandbox's loopback, with this status or any below 500."""

    port: int
    path: str | None = None
    status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """What shows that a service can be used, one of: a port listens, it printed a line, a port answers over HTTP."""

    port: int | None = None
    log: ReadyLine | None = None
    http: HttpAnswer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A command that a sandbox is to have running whenever it runs."""

    name: str
    shell: str | None = None
    command: Sequence[str | bytes] | None = None
    user: Literal["user", "root"] | None = None
    directory: str | None = None
    env: Mapping[str, str] | None = None
    restart: Literal["never", "on_failure", "always"] | None = None
    ready: Ready | None = None
    ready_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceGit:
    """A repository that is cloned inside."""

    url: str
    branch: str | None = None
    depth: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The files that a sandbox begins with: a clone, or what comes with the request. `path` is where they are put."""

    path: str | None = None
    git: WorkspaceGit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """How a service is."""

    name: str
    state: str
    exec_id: str | None = None
    restarts: int = 0
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """When each stage of a creation was over, in microseconds since the request."""

    accepted_us: int | None = None
    image_ready_us: int | None = None
    allocated_us: int | None = None
    filesystem_ready_us: int | None = None
    runtime_ready_us: int | None = None
    dependencies_ready_us: int | None = None
    network_ready_us: int | None = None
    first_command_done_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldCause:
    """What a sandbox is held awake by."""

    kind: str
    exec_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """Something that a sandbox was refused on its way out."""

    seq: int
    at: datetime
    code: str
    host: str
    protocol: DenialProtocol
    message: str
    next_step: str
    count: int
    port: int | None = None
    method: str | None = None
    path: str | None = None
    rule: str | None = None
    layer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DenialPage:
    """What a sandbox was refused, the oldest first; `next` is the cursor of the next page."""

    denials: tuple[Denial, ...]
    missed: int
    next: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """One reason why a sandbox counts as at work."""

    cause: HoldCause
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OfPool:
    """How a sandbox came of a pool: as a member that ran already, or made from the start since `cold_because`."""

    name: str
    cold_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxInfo:
    """A sandbox as it was when it was asked for."""

    id: str
    state: State
    image: str
    tier: str
    labels: Mapping[str, str]
    limits: Limits
    lifecycle: Lifecycle
    created_at: datetime
    state_since: datetime
    holds: tuple[Hold, ...]
    timeline: Timeline
    exec_ask: tuple[str, ...] = ()
    secret_files: tuple[str, ...] = ()
    volumes: tuple[MountedVolume, ...] = ()
    name: str | None = None
    lease_ends_at: datetime | None = None
    workspace: str | None = None
    snapshot_id: str | None = None
    archive_id: str | None = None
    template: str | None = None
    cause: str | None = None
    budget: Budget = Budget()
    pool: OfPool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInfo:
    """A snapshot as it is kept. `way` is how its files came to be: `rename`, `subvolume`, `reflink` or `copy`."""

    id: str
    sandbox_id: str
    created_at: datetime
    labels: Mapping[str, str]
    image: str
    tier: str
    limits: Limits
    way: SnapshotWay
    took_us: int
    frozen_us: int
    copied_bytes: int
    files: int | None = None
    sandbox_name: str | None = None
    parent_id: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveInfo:
    """An archive as the object store has it: of a snapshot, or of a sandbox that is archived."""

    id: str
    kind: Literal["snapshot", "sandbox"]
    sandbox_id: str
    archived_at: datetime
    labels: Mapping[str, str]
    image: str
    tier: str
    limits: Limits
    layers: int
    bytes: int
    is_encrypted: bool
    sandbox_name: str | None = None
    snapshot_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableArchive:
    """An archive that is there and cannot be read, as by another key."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePage:
    """A page of archives."""

    archives: tuple[ArchiveInfo, ...]
    unreadable: tuple[UnreadableArchive, ...] = ()
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """What came of archiving something, and how much of it had to be sent."""

    archive: ArchiveInfo
    sent_layers: int
    sent_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredInfo:
    """What came of an archive: a snapshot or a sandbox."""

    snapshot: SnapshotInfo | None = None
    sandbox: SandboxInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffSide:
    """What there is at a path in one of two snapshots."""

    kind: Literal["file", "directory", "link", "other"]
    bytes: int
    mode: str
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffEntry:
    """A path that differs. `difference` is `added`, `removed`, `modified`, `attributes` (alone) or `type`."""

    path: str
    difference: Difference
    before: DiffSide | None = None
    after: DiffSide | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncompared:
    """A path that could not be compared, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDiff:
    """What differs between two snapshots, sorted by path, and whether there may be more."""

    snapshot_id: str
    entries: tuple[DiffEntry, ...]
    uncompared: tuple[Uncompared, ...]
    is_cut: bool
    with_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkInfo:
    """What became of one fork: a sandbox, or the error as the API writes it."""

    sandbox: SandboxInfo | None = None
    error: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForksInfo:
    """What became of a request for forks."""

    snapshot_id: str
    forks: tuple[ForkInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventKind:
    """What happened; the other fields are there where they apply."""

    kind: str
    reason: str | None = None
    cause: str | None = None
    forced: bool | None = None
    port: int | None = None
    visibility: Visibility | None = None
    snapshot_id: str | None = None
    archive_id: str | None = None
    volume_id: str | None = None
    shared_with: tuple[str, ...] | None = field(default=None, metadata={"wire": "with"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a sandbox."""

    seq: int
    at: datetime
    sandbox_id: str
    what: EventKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """So many events are not kept any more."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityFlags:
    """What the tier can do on the server's host."""

    pause: bool
    limit_memory: bool
    limit_cpus: bool
    limit_pids: bool
    measure_cpu: bool = False
    limit_disk: bool
    user_root: bool
    writable_root: bool
    snapshot: bool = False
    volumes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingCapability:
    """A flag that is not set, and why."""

    flag: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What can be asked of a server."""

    tier: str
    flags: CapabilityFlags
    sandboxes_max: int
    limits_max: Limits
    lifecycle_max: Lifecycle
    missing: tuple[MissingCapability, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """One thing that was looked at."""

    name: str
    status: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How a server is: `ok`, `degraded` or `failing`."""

    status: str
    checks: tuple[HealthCheck, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How much of something is used."""

    used: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestHealth:
    """What a sandbox's own first process tells of it."""

    age_ms: int
    running_execs: int
    processes: int
    descriptors: Use
    kept_bytes: Use


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxHealth:
    """How a sandbox that runs is: `ok`, `degraded` or `silent`."""

    status: str
    reasons: tuple[str, ...]
    answer_us: int | None = None
    guest: GuestHealth | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of the API, without its secret."""

    id: str
    scope: Scope
    note: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key that was just made; its secret is shown this once."""

    key: Key
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """How much a stream has carried, and how much of that is not kept."""

    bytes: int
    dropped_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalSize:
    """The size of a terminal, in characters."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended: with an exit code or by a signal, of which exactly one is there."""

    duration_us: int
    cpu_us: int
    max_rss_kib: int
    exit_code: int | None = None
    signal: int | None = None
    cause: EndCause | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecInfo:
    """A command as it was when it was asked for."""

    id: str
    command: tuple[str, ...]
    pid: int
    started_ago_ms: int
    state: ExecState
    stdout: Printed
    stderr: Printed
    fed_bytes: int
    name: str | None = None
    session: str | None = None
    terminal: TerminalSize | None = None
    ended: Ended | None = None
    lost: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is there of a stream: all of it, or its head and its tail."""

    head: bytes
    dropped_bytes: int
    tail: bytes | None = None

    @property
    def octets(self) -> bytes:
        """Head and tail, with a line between that says how much is missing, if it is."""
        if not self.dropped_bytes:
            return self.head
        return b"%s\n[%d bytes are not shown]\n%s" % (self.head, self.dropped_bytes, self.tail or b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """How a command ended, and what it printed."""

    exec: ExecInfo
    stdout_kept: Kept = field(metadata={"wire": "stdout"})
    stderr_kept: Kept = field(metadata={"wire": "stderr"})
    denials: tuple[Denial, ...] = ()
    """What its sandbox was refused while it ran."""

    @property
    def _ended(self) -> Ended:
        ended = self.exec.ended
        if ended is None:
            raise ValueError("the command has not ended")
        return ended

    @property
    def exit_code(self) -> int | None:
        """What it exited with; None if a signal ended it."""
        return self._ended.exit_code

    @property
    def signal(self) -> int | None:
        """The signal that ended it; None if it exited."""
        return self._ended.signal

    @property
    def cause(self) -> EndCause | None:
        """Why it was ended, if it was."""
        return self._ended.cause

    @property
    def timed_out(self) -> bool:
        """Whether its time was over."""
        return self._ended.cause == "timed_out"

    @property
    def ok(self) -> bool:
        """Whether it exited with 0."""
        return self._ended.exit_code == 0

    @property
    def stdout(self) -> str:
        """What it printed; what is not UTF-8 is replaced."""
        return self.stdout_kept.octets.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """What it printed on standard error; what is not UTF-8 is replaced."""
        return self.stderr_kept.octets.decode("utf-8", "replace")

    @property
    def stdout_bytes(self) -> bytes:
        """What it printed."""
        return self.stdout_kept.octets

    @property
    def stderr_bytes(self) -> bytes:
        """What it printed on standard error."""
        return self.stderr_kept.octets

    @property
    def stdout_dropped_bytes(self) -> int:
        """How much of its output is not here."""
        return self.stdout_kept.dropped_bytes

    @property
    def stderr_dropped_bytes(self) -> int:
        """How much of its standard error is not here."""
        return self.stderr_kept.dropped_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The first event of a command: how it is."""

    exec: ExecInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Something was printed."""

    stream: StreamName
    offset: int
    data: bytes

    @property
    def text(self) -> str:
        """The bytes as text; what is not UTF-8 is replaced."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Bytes `start` to `end` of a stream are not kept any more."""

    stream: StreamName
    start: int = field(metadata={"wire": "from"})
    end: int = field(metadata={"wire": "to"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The last event of a command; `exec.ended` says how it ended."""

    exec: ExecInfo


ExecEvent = Started | Output | Dropped | Finished
"""What happens to a command. If what became of it is unknown, `Lost` is raised instead of the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStat:
    """What is known of a name. In a list, `path` is below the directory."""

    path: str
    kind: Literal["file", "directory", "link", "other"]
    bytes: int
    mode: str
    uid: int
    gid: int
    modified_us: int
    target: str | None = None
    unread: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Names, and whether there are more."""

    entries: tuple[FileStat, ...]
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """One text in place of another, which must be there so often."""

    old: str
    new: str
    expected: int | Literal["any"] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A file after its text was replaced."""

    stat: FileStat
    replaced: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A line that was found."""

    path: str
    line: int
    column: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Lines that were found, and whether there may be more."""

    matches: tuple[Match, ...]
    is_cut: bool
    searched: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """An archive that was unpacked."""

    entries: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEvent:
    """What is told of a watched directory.

    `ready`: changes are seen from now on; again after the connection broke, and then some may have been missed.
    `changed`: `path` was. `overflowed`: some were missed. `unwatched`: `path` cannot be watched, for `code`.
    """

    kind: Literal["ready", "changed", "overflowed", "unwatched"]
    path: str = ""
    change: Change | None = None
    is_directory: bool = False
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GitEntry:
    """A path that git calls changed: how in the index, and how in the work tree."""

    path: str
    index: str
    worktree: str
    origin: str | None = field(default=None, metadata={"wire": "from"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GitStatus:
    """How a repository is."""

    entries: tuple[GitEntry, ...]
    branch: str | None = None
    upstream: str | None = None
    commit: str | None = None
    ahead: int = 0
    behind: int = 0
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GitDiff:
    """A diff, and whether there is more of it."""

    text: str
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A port that is exposed, and where."""

    port: int
    visibility: Visibility
    url: str = field(repr=False)
    path_url: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port on which something listens, or that is exposed."""

    port: int
    is_listening: bool
    is_any_address: bool
    preview: Preview | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """How long was waited, and for a log line the text that matched."""

    waited_ms: int
    matched: str | None = None
