"""What sandboxes asked for and people decided, and what was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

ApprovalStatus = Literal["pending", "approved", "denied", "expired"]
GrantScope = Literal["once", "sandbox", "always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskyChange:
    """A change that can make something run on the machine, and why."""

    path: str
    change: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalWhat:
    """What is asked for: a connection or a request (`network`), a command (`exec`), or that changes are applied.

    What is applied is what `digest` is of: files of a review session that come, change and go, some of them risky.
    """

    kind: Literal["network", "exec", "apply"]
    host: str | None = None
    port: int | None = None
    method: str | None = None
    path: str | None = None
    argv: tuple[str, ...] | None = None
    session: str | None = None
    project: str | None = None
    digest: str | None = None
    paths: tuple[str, ...] = ()
    added: int | None = None
    modified: int | None = None
    deleted: int | None = None
    risky: int | None = None
    risks: tuple[RiskyChange, ...] = ()
    said_in: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """How an approval was decided, when and by whom. `until` is none where the decision has no end."""

    at: datetime
    by: str
    scope: GrantScope | None = None
    until: datetime | None = None
    reason: str | None = None
    is_used: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Something that was asked for. A decision holds for the same `rule` and `name`.

    `sandbox_id` is the sandbox that asked, `asked_by` who else did.
    """

    id: str
    sandbox_id: str | None = None
    asked_by: str | None = None
    what: ApprovalWhat
    rule: str
    name: str
    status: ApprovalStatus
    count: int
    asked_at: datetime
    last_asked_at: datetime
    pending_until: datetime
    decided: Decided | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditKind:
    """What happened, as in `exec_started`; the other fields are there where they apply."""

    kind: str
    approval_id: str | None = None
    archive_id: str | None = None
    argv: tuple[str, ...] | None = None
    by: str | None = None
    bytes: int | None = None
    cause: str | None = None
    code: str | None = None
    copy_of: str | None = None
    count: int | None = None
    exec_id: str | None = None
    exit_code: int | None = None
    host: str | None = None
    host_path: str | None = None
    image: str | None = None
    is_cut: bool | None = None
    is_new: bool | None = None
    method: str | None = None
    name: str | None = None
    part: str | None = None
    path: str | None = None
    port: int | None = None
    previous: str | None = None
    reason: str | None = None
    rule: str | None = None
    scope: GrantScope | None = None
    sha256: str | None = None
    signal: int | None = None
    snapshot_id: str | None = None
    status: ApprovalStatus | None = None
    through: int | None = None
    until: datetime | None = None
    user: Literal["user", "root"] | None = None
    version: str | None = None
    volume_id: str | None = None
    was_in_order: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One record of the log. `hash` chains it to the record before."""

    seq: int
    at: datetime
    what: AuditKind
    hash: str
    sandbox_id: str | None = None
