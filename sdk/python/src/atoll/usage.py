"""What sandboxes have used. What is not measured is None, and not 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

BudgetPeriod = Literal["hour", "day", "week", "month"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkUsage:
    """What went through the gateway."""

    bytes_sent: int
    bytes_received: int
    requests: int
    connections: int
    questions: int
    denied: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Amounts that only grow: processor time, memory times how long, and what went through the gateway."""

    cpu_us: int | None = None
    memory_mib_seconds: int | None = None
    network: NetworkUsage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that may be used; what is not said has no end."""

    cpu_us: int | None = None
    memory_mib_seconds: int | None = None
    bytes_sent: int | None = None
    bytes_received: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBudget:
    """A budget that all sandboxes with certain labels have together. `overdrawn` is what is used up of it."""

    name: str
    labels: Mapping[str, str]
    budget: Budget
    used: Used
    period: BudgetPeriod | None = None
    overdrawn: str | None = None
    renews_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUsage:
    """Bytes that files take on the host, without the image; not `is_complete` if not all of them were seen."""

    bytes: int
    measured_at: datetime
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one sandbox has used in its whole life; `disk` is known where it is asked about alone."""

    sandbox_id: str
    labels: Mapping[str, str]
    created_at: datetime
    used: Used
    name: str | None = None
    deleted_at: datetime | None = None
    disk: DiskUsage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotal:
    """What several sandboxes have used together."""

    sandboxes: int
    used: Used


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePage:
    """A page of what sandboxes have used, the oldest first; `next` is the cursor of the next page.

    `older` are those that were deleted so long ago that they are only known together, `total` all that were asked for.
    """

    sandboxes: tuple[Usage, ...]
    older: UsageTotal
    total: UsageTotal
    next: str | None = None
