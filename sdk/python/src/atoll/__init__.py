"""Sandboxes for AI agents, on your own machines.

    with Atoll().create() as sandbox:
        print(sandbox.exec("echo hello").stdout)

`Atoll` and `Sandbox` are synchronous; `AsyncAtoll` and `AsyncSandbox` have the same verbs, to be awaited.
"""

from ._async.client import AsyncAtoll, AsyncKeys
from ._async.execs import AsyncExec, AsyncExecs
from ._async.files import AsyncFiles
from ._async.git import AsyncGit
from ._async.sandbox import AsyncSandbox, AsyncSession
from ._sync.client import Atoll, Keys
from ._sync.execs import Exec, Execs
from ._sync.files import Files
from ._sync.git import Git
from ._sync.sandbox import Sandbox, Session
from .errors import (
    ApiError,
    AtollError,
    Capacity,
    CommandFailed,
    Conflict,
    ConnectionError,
    Forbidden,
    Internal,
    Invalid,
    Lost,
    MethodNotAllowed,
    NotFound,
    NotReady,
    TimedOut,
    Unreachable,
    OutputDropped,
    RefusedByPolicy,
    StillRunning,
    TooLarge,
    Unauthenticated,
    UnsupportedByTier,
    WrongState,
)
from .models import (
    Capabilities,
    Dropped,
    Ended,
    Event,
    ExecEvent,
    ExecInfo,
    ExecResult,
    FileEvent,
    FileStat,
    Finished,
    Lifecycle,
    Limits,
    Missed,
    Output,
    Port,
    Preview,
    Ready,
    Replacement,
    SandboxInfo,
    Service,
    ServiceStatus,
    Started,
)

__all__ = [
    "ApiError",
    "AsyncAtoll",
    "AsyncExec",
    "AsyncExecs",
    "AsyncFiles",
    "AsyncGit",
    "AsyncKeys",
    "AsyncSandbox",
    "AsyncSession",
    "Atoll",
    "AtollError",
    "Capabilities",
    "Capacity",
    "CommandFailed",
    "Conflict",
    "ConnectionError",
    "Dropped",
    "Ended",
    "Event",
    "Exec",
    "ExecEvent",
    "ExecInfo",
    "ExecResult",
    "Execs",
    "FileEvent",
    "FileStat",
    "Files",
    "Finished",
    "Forbidden",
    "Git",
    "Internal",
    "Invalid",
    "Keys",
    "Lifecycle",
    "Limits",
    "Lost",
    "MethodNotAllowed",
    "Missed",
    "NotFound",
    "NotReady",
    "Output",
    "OutputDropped",
    "Port",
    "Preview",
    "Ready",
    "RefusedByPolicy",
    "Replacement",
    "Sandbox",
    "SandboxInfo",
    "Service",
    "ServiceStatus",
    "Session",
    "Started",
    "StillRunning",
    "TimedOut",
    "TooLarge",
    "Unauthenticated",
    "Unreachable",
    "UnsupportedByTier",
    "WrongState",
]
