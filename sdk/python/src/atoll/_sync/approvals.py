"""What sandboxes asked for: listed, decided and watched."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from .._wire import body, decode, query, segment
from ..oversight import Approval, ApprovalStatus, GrantScope
from .connection import OPENED, Connection

TOLD_MAX = 10_000
"""How many approvals a watcher remembers to have told; a server remembers fewer."""


class Approvals:
    """What sandboxes asked for because a rule says so, and people decide."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(
        self, *, status: ApprovalStatus | None = None, sandbox: str | None = None
    ) -> Iterator[Approval]:
        """Iterates approvals, the oldest first, page by page; `sandbox` is an id or a name."""
        cursor: int | None = None
        while True:
            fields = query(status=status, sandbox=sandbox, cursor=cursor)
            page: dict[str, Any] = (self._connection.request("GET", "/v1/approvals", query=fields)).json()
            for one in page["approvals"]:
                yield decode(Approval, one)
            cursor = page.get("next")
            if cursor is None:
                return

    def get(self, approval: str) -> Approval:
        """The approval of this id, as it is now."""
        response = self._connection.request("GET", f"/v1/approvals/{segment(approval)}")
        return decode(Approval, response.json())

    def approve(
        self, approval: str, *, scope: GrantScope = "once", expires_in: float | None = None
    ) -> Approval:
        """Approves what was asked for: once, for that sandbox, or always.

        `expires_in` is in seconds. Where nothing is said it holds for ten minutes if it is for `once`, for as long as
        the sandbox is there, or for thirty days if it is for `always`.
        """
        seconds = None if expires_in is None else math.ceil(expires_in)
        return self._decide(approval, "approve", body(scope=scope, expires_in_s=seconds))

    def deny(self, approval: str, *, reason: str | None = None) -> Approval:
        """Denies what was asked for, or takes back that it was approved; the agent reads the reason.

        Requests to where a sandbox was let before may still go there for half a minute.
        """
        return self._decide(approval, "deny", body(reason=reason))

    def _decide(self, approval: str, verb: str, request: dict[str, Any]) -> Approval:
        path = f"/v1/approvals/{segment(approval)}/{verb}"
        return decode(Approval, (self._connection.request("POST", path, body=request)).json())

    def watch(self) -> Iterator[Approval]:
        """Iterates approvals, first those that are pending and then each as it changes, until whoever reads stops.

        What changed while the connection was broken comes when it is there again, and nothing comes twice.
        """
        told: dict[str, tuple[int, int]] = {}
        for one in self.list():
            if one.status != "pending":
                told[one.id] = progress(one)
        is_back = False
        for event in self._connection.events("/v1/approvals/events", tells_opening=True):
            if event.kind == "approval":
                one = decode(Approval, json.loads(event.data))
                if is_news(told, one):
                    yield one
            elif event.kind == OPENED and is_back:
                for one in self.list():
                    if is_news(told, one):
                        yield one
            is_back = True


def progress(approval: Approval) -> tuple[int, int]:
    """How far it has come: pending, approved, used, over; and how often it was asked for."""
    if approval.status == "pending":
        return 0, approval.count
    if approval.status == "approved":
        return 2 if approval.decided is not None and approval.decided.is_used else 1, approval.count
    return 3, approval.count


def is_news(told: dict[str, tuple[int, int]], approval: Approval) -> bool:
    """Whether this was not told yet; from now on it was."""
    now = progress(approval)
    before = told.get(approval.id)
    if before is not None and now <= before:
        return False
    told[approval.id] = now
    if len(told) > TOLD_MAX:
        del told[next(iter(told))]
    return True
