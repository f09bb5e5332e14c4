"""What can go wrong, one class for each thing that a caller does differently."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .models import ExecResult

TookEffect = Literal["yes", "no", "unknown"]
"""Whether a request that failed changed anything."""

RetryKind = Literal["safe", "unsafe", "after"]
"""Whether the same request may be sent again."""


class AtollError(Exception):
    """Whatever this package raises about sandboxes.

    `code` is for programs, the message is for people, and `next_step` says what to do now in words that an
    agent can act on.
    """

    code: str = "error"

    def __init__(
        self,
        message: str,
        *,
        took_effect: TookEffect = "unknown",
        retry: RetryKind = "unsafe",
        retry_after_ms: int | None = None,
        next_step: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.took_effect: TookEffect = took_effect
        self.retry: RetryKind = retry
        self.retry_after_ms = retry_after_ms
        self.next_step = next_step
        self.details: Mapping[str, Any] = dict(details or {})

    def __str__(self) -> str:
        return f"{self.message} ({self.next_step})" if self.next_step else self.message


class ApiError(AtollError):
    """The server answered that it did not work; also the class of codes that this package does not know."""

    def __init__(self, message: str, *, code: str | None = None, status: int = 0, **facts: Any) -> None:
        super().__init__(message, **facts)
        if code is not None:
            self.code = code
        self.status = status
        """The HTTP status that the answer came with; 0 for an error in a stream."""


class NotFound(ApiError):
    """There is nothing of that id or name."""

    code = "not_found"


class WrongState(ApiError):
    """It is there, but in a state in which this cannot be done; `details["state"]` says in which."""

    code = "wrong_state"


class Capacity(ApiError):
    """A limit of the host or of the account is used up; `details["limit"]` says which."""

    code = "capacity"


class NotReady(ApiError):
    """It will be there, but is not yet."""

    code = "not_ready"


class TimedOut(ApiError):
    """It did not come to be in the time that the request gives it."""

    code = "timed_out"


class Unreachable(ApiError):
    """Nothing answers behind a preview; `details["listening"]` says what would."""

    code = "unreachable"


class RefusedByPolicy(ApiError):
    """A policy forbids it."""

    code = "refused_by_policy"


class NotApproved(RefusedByPolicy):
    """It has to be approved by a person, and was not; nothing was run. `approval_id` is what it waits for."""

    @property
    def approval_id(self) -> str:
        """The approval that it is about, for `approvals.get`."""
        return str(self.details.get("approval_id", ""))


class ApprovalPending(NotApproved):
    """Nobody has decided yet: the same may be asked for again."""


class ApprovalDenied(NotApproved):
    """Somebody denied it; the message says why, if they did."""


class ApprovalExpired(NotApproved):
    """Nobody decided in time; asked for again it is another approval."""


class UnsupportedByTier(ApiError):
    """The sandbox's tier cannot do it; `details["capability"]` says what it lacks."""

    code = "unsupported_by_tier"


class Lost(ApiError):
    """The outcome is unknown, because whoever knew it is gone. There is no exit code."""

    code = "lost"


class Invalid(ApiError):
    """The request itself is wrong; `details["field"]` says where."""

    code = "invalid"


class TooLarge(ApiError):
    """The request is larger than is taken; `details["limit"]` says which limit it breaks."""

    code = "too_large"


class MethodNotAllowed(ApiError):
    """There is something at that path, but not for this method."""

    code = "method_not_allowed"


class Unauthenticated(ApiError):
    """Nobody is known by the key that came with the request, or none came."""

    code = "unauthenticated"


class Forbidden(ApiError):
    """The caller is known and may not; `details["scope"]` says what would be needed."""

    code = "forbidden"


class Conflict(ApiError):
    """It contradicts something that is there, such as a name that is taken."""

    code = "conflict"


class Internal(ApiError):
    """A fault of the server or of its host; the server's log has its cause."""

    code = "internal"


class ConnectionError(AtollError, builtins.ConnectionError):
    """The server could not be asked, or did not answer.

    `kind` is `unreachable` where nothing was sent, `broken` where the connection ended before the answer, and
    `silent` where nothing came for too long.
    """

    code = "connection"

    def __init__(self, message: str, *, kind: Literal["unreachable", "broken", "silent"], **facts: Any) -> None:
        super().__init__(message, **facts)
        self.kind = kind


class CommandFailed(AtollError):
    """A command that was run with `check=True` did not end with 0; `result` has all that is known of it."""

    code = "command_failed"

    def __init__(self, result: ExecResult) -> None:
        how = f"exit code {result.exit_code}" if result.signal is None else f"signal {result.signal}"
        cause = f", {result.cause.replace('_', ' ')}" if result.cause else ""
        last = result.stderr.strip().splitlines()[-1:]
        super().__init__(
            ": ".join([f"the command ended with {how}{cause}", *last]),
            took_effect="yes",
            next_step="look at `result`",
        )
        self.result = result


class StillRunning(AtollError, TimeoutError):
    """A wait was over before the command was; it goes on."""

    code = "still_running"


class OutputDropped(AtollError):
    """Output from `start` to `end` is not kept any more, so what follows is not the whole of it."""

    code = "output_dropped"

    def __init__(self, stream: str, start: int, end: int) -> None:
        super().__init__(
            f"bytes {start} to {end} of {stream} are not kept any more",
            took_effect="no",
            retry="safe",
            next_step=f"read on from offset {end}, or keep more with `keep_bytes`",
        )
        self.start = start
        self.end = end


CODES: Mapping[str, type[ApiError]] = {
    one.code: one
    for one in (
        NotFound,
        WrongState,
        Capacity,
        NotReady,
        TimedOut,
        Unreachable,
        RefusedByPolicy,
        UnsupportedByTier,
        Lost,
        Invalid,
        TooLarge,
        MethodNotAllowed,
        Unauthenticated,
        Forbidden,
        Conflict,
        Internal,
    )
}
"""The class of each code."""

REASONS: Mapping[str, type[NotApproved]] = {
    "approval-pending": ApprovalPending,
    "approval-denied": ApprovalDenied,
    "approval-expired": ApprovalExpired,
}
"""The class of each `details["reason"]` for which a caller has something else to do than for its code."""


def from_wire(error: Mapping[str, Any], status: int = 0) -> ApiError:
    """Makes the error that the API wrote as `error`."""
    code = str(error.get("code", "internal"))
    retry = error.get("retry") or {}
    kind = CODES.get(code, ApiError)
    reason = REASONS.get(str((error.get("details") or {}).get("reason")))
    if reason is not None and issubclass(reason, kind):
        kind = reason
    return kind(
        str(error.get("message", "the server gave no reason")),
        code=code,
        status=status,
        took_effect=error.get("took_effect", "unknown"),
        retry=retry.get("kind", "unsafe"),
        retry_after_ms=retry.get("after_ms"),
        next_step=str(error.get("next_step", "")),
        details=error.get("details"),
    )
