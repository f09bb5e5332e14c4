"""Secrets, approvals and the audit log, with a server of which each answer is written down here."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

import atoll
from atoll import errors

VALUE = "sk-a-value-that-nobody-sees"


def client(answer: Callable[[httpx.Request], httpx.Response]) -> atoll.Atoll:
    """A client of a server that answers so."""
    made = atoll.Atoll("http://localhost", "e2b_00")
    made._connection._http = httpx.Client(base_url="http://localhost", transport=httpx.MockTransport(answer))
    return made


def refused(reason: str) -> dict[str, Any]:
    """How a command is refused that has to be approved."""
    details = {"reason": reason, "approval_id": "apr_1"}
    error = {"code": "refused_by_policy", "message": "m", "took_effect": "no", "retry": {"kind": "safe"}}
    return {"error": {**error, "next_step": "n", "details": details}}


def approval(id: str, status: str, **more: Any) -> dict[str, Any]:
    """An approval as it is written."""
    at = "2026-11-30T01:10:00Z"
    decided = None if status == "pending" else {"at": at, "by": "uid:0", **more}
    what = {"kind": "exec", "argv": ["true"]}
    times = {"asked_at": at, "last_asked_at": at, "pending_until": at}
    named = {"id": id, "sandbox_id": "sbx_1", "what": what, "rule": "r", "name": "n"}
    return {**named, "status": status, "count": 1, **times, "decided": decided}


@pytest.mark.parametrize("name", ["Pending", "Denied", "Expired"])
def test_why_a_command_was_not_approved_is_a_class_of_its_own(name: str) -> None:
    kind = getattr(atoll, f"Approval{name}")
    error = errors.from_wire(refused(f"approval-{name.lower()}")["error"], 403)
    assert type(error) is kind
    assert isinstance(error, atoll.NotApproved) and isinstance(error, atoll.RefusedByPolicy)
    assert error.approval_id == "apr_1"
    other = errors.from_wire({**refused("something-else")["error"], "details": None})
    assert type(other) is atoll.RefusedByPolicy


def test_a_command_is_asked_for_again_for_as_long_as_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atoll._sync.execs.ASK_AGAIN_SECONDS", 0.0)
    asked: list[str] = []
    reasons = ["approval-pending", "approval-pending", "approval-denied"]

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.read())["id"])
        return httpx.Response(403, json=refused(reasons[min(len(asked), len(reasons)) - 1]))

    execs = atoll.Execs(client(answer)._connection, "/v1/sandboxes/sbx_1")
    with pytest.raises(atoll.ApprovalPending):
        execs.start("true")
    assert len(asked) == 1, "nothing was said about waiting"
    asked.clear()
    with pytest.raises(atoll.ApprovalDenied):
        execs.start("true", approval_timeout=60)
    assert len(asked) == 3 and len(set(asked)) == 1, "so that it never runs twice"


class Broken(httpx.SyncByteStream):
    """A body that breaks off."""

    def __init__(self, *events: tuple[str, Any]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[bytes]:
        for kind, data in self._events:
            yield f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()
        raise httpx.ReadError("broken")


def test_a_watcher_learns_what_changed_while_its_connection_was_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atoll._sync.connection.pause", lambda _: 0.0)
    lists = [
        [approval("apr_old", "approved", scope="always"), approval("apr_a", "pending")],
        [
            approval("apr_old", "approved", scope="always"),
            approval("apr_a", "approved", scope="once"),
            approval("apr_b", "expired"),
            approval("apr_c", "pending"),
        ],
        [approval("apr_a", "approved", scope="once", is_used=True)],
    ]
    streams = [
        [("approval", approval("apr_a", "pending"))],
        # Told again as it was, late; what was found meanwhile is newer.
        [("approval", approval("apr_a", "pending")), ("approval", approval("apr_c", "pending")), ("news", {})],
        [],
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/approvals":
            return httpx.Response(200, json={"approvals": lists.pop(0)})
        return httpx.Response(200, stream=Broken(*streams.pop(0)))

    watched = client(answer).approvals.watch()
    told = [(one.id, one.status, one.decided is not None and one.decided.is_used) for one in (next(watched) for _ in range(5))]
    assert told == [
        ("apr_a", "pending", False),
        ("apr_a", "approved", False),
        ("apr_b", "expired", False),
        ("apr_c", "pending", False),
        ("apr_a", "approved", True),
    ]


def test_the_log_is_followed_from_where_its_stream_began(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atoll._sync.connection.pause", lambda _: 0.0)
    came_back: list[str | None] = []
    record = {"seq": 8, "at": "2026-11-30T01:10:00Z", "what": {"kind": "server_stopped"}, "hash": "00"}
    bodies = [b"id: 7\n\n", b"id: 7\n\nid: 8\ndata: " + json.dumps(record).encode() + b"\n\n"]

    def answer(request: httpx.Request) -> httpx.Response:
        came_back.append(request.headers.get("last-event-id"))
        return httpx.Response(200, stream=httpx.ByteStream(bodies.pop(0)))

    found = next(client(answer).audit.follow())
    assert (found.seq, found.what.kind) == (8, "server_stopped")
    assert came_back == [None, "7"]


@pytest.mark.parametrize("value", [VALUE, VALUE.encode()])
def test_the_value_of_a_secret_is_in_nothing_that_is_shown(caplog: pytest.LogCaptureFixture, value: str | bytes) -> None:
    caplog.set_level(logging.DEBUG)
    bodies: list[bytes] = []
    at = "2026-11-30T01:10:00Z"

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(request.read())
        if len(bodies) == 1:
            return httpx.Response(200, json={"name": "A", "created_at": at, "updated_at": at})
        if len(bodies) == 2:
            return httpx.Response(500, json={"error": {"code": "internal", "message": "m"}})
        raise httpx.ReadTimeout("slow")

    by = client(answer)
    shown = [repr(by.secrets.set("A", value))]
    for _ in range(2):
        with pytest.raises(atoll.AtollError) as failed:
            by.secrets.set("A", value)
        error = failed.value
        shown += [str(error), repr(error), repr(vars(error)), "".join(traceback.format_exception(error))]
    shown += [repr(by), repr(by.secrets), repr(vars(by.secrets)), caplog.text]
    spelled = [VALUE, json.loads(bodies[0]).get("value_base64", VALUE)]
    assert spelled[-1].encode() in bodies[0], "it was sent"
    assert not [text for text in shown if any(one in text for one in spelled)]


def test_one_rule_in_place_of_a_list_is_a_mistake() -> None:
    assert atoll.NetworkPolicy(allow=["*"]) == atoll.NetworkPolicy(allow=("*",))
    with pytest.raises(TypeError, match=r"NetworkPolicy.allow is a list: write \['\*'\]"):
        atoll.NetworkPolicy(allow="*")
    with pytest.raises(TypeError, match="NetworkSecret.at"):
        atoll.NetworkSecret(name="A", at="https://a")
