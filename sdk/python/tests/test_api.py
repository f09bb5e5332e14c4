"""The SDK against the description of the API: what one of them has and the other has not is named here."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import io
import json
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import httpx
import pytest

import atoll
from atoll import errors, images, models, network, oversight, usage, volumes
from atoll import Budget, NetworkBudgets, NetworkPolicy, NetworkSecret
from atoll.models import HttpAnswer, Lifecycle, Limits, Ready, ReadyLine, Replacement, Service, Workspace, WorkspaceGit

import openapi
from serving import ROOT

LEFT_OUT = {
    "attach_exec": "a WebSocket, which httpx does not speak; `events`, `write`, `resize` and `signal` do the same",
    "connect_port": "a WebSocket, which httpx does not speak",
    "get_metrics": "for what collects metrics",
    "get_openapi": "for tools",
    "ask_approval": "for `atoll apply`",
    "create_pool": "pools are made by who runs the server, with `atoll pool`",
    "list_pools": "likewise",
    "get_pool": "likewise",
    "set_pool": "likewise",
    "delete_pool": "likewise",
    "build_template": "templates are built by `atoll template`",
    "list_builds": "likewise",
    "get_build": "likewise",
    "get_build_logs": "likewise",
    "cancel_build": "likewise",
    "get_build_files": "likewise",
    "send_build_files": "likewise",
    "list_templates": "likewise",
    "get_template": "likewise",
    "delete_template": "likewise",
}
"""Operations without a verb."""

UNSENT = {
    "get_or_create_sandbox.name": "it is in the path",
    "list_denials.within_ms": "the result of a command has those of its time",
    "fork_snapshot.sandbox.image": "the snapshot is in its place",
    "fork_sandbox.sandbox.image": "likewise",
    "fork_snapshot.sandbox.template": "likewise",
    "fork_snapshot.sandbox.pool": "likewise",
    "fork_sandbox.snapshot.keep_last": "for snapshots that are taken again and again: `snapshot` says it",
    "fork_sandbox.sandbox.template": "likewise",
    "fork_sandbox.sandbox.pool": "likewise",
    "fork_snapshot.sandbox.snapshot": "it is in the path",
    "fork_sandbox.sandbox.snapshot": "it is one of the sandbox in the path",
    "fork_snapshot.sandbox.workspace": "it begins with the files of the snapshot",
    "fork_sandbox.sandbox.workspace": "likewise",
    "fork_snapshot.sandbox.image_pull": "likewise",
    "fork_sandbox.sandbox.image_pull": "likewise",
    "read_archive.format": "uncompressed is faster where both are on one machine",
    "write_archive.format": "likewise",
    "read_file.range": "`offset` and `length` say it",
    "list_usage.format": "for spreadsheets: `atoll usage --csv`",
}
"""What requests may have and the SDK never says."""

UNREAD: dict[str, str] = {}
"""What answers have and the SDK does not show."""

EVENTS = {
    "Event": models.Event,
    "Approval": oversight.Approval,
    "AuditRecord": oversight.AuditRecord,
    "Exec": models.ExecInfo,
    "Dropped": models.Dropped,
    "Changed": models.FileEvent,
    "Unwatched": models.FileEvent,
}
"""What comes in streams, which the description only calls text."""

STREAMS = {
    "follow_events": ("message", "Event"),
    "follow_exec": ("ended", "Exec"),
    "watch_files": ("changed", "Changed"),
    "follow_approvals": ("approval", "Approval"),
    "get_audit": ("message", "AuditRecord"),
    "pull_image": ("image", "Image"),
}
"""Streams, and the event that each of them is answered with."""

LITERALS = {
    "State": models.State,
    "ExecState": models.ExecState,
    "EndCause": models.EndCause,
    "Stream": models.StreamName,
    "Scope": models.Scope,
    "Visibility": models.Visibility,
    "DenialProtocol": models.DenialProtocol,
    "Change": models.Change,
    "Difference": models.Difference,
    "SnapshotWay": models.SnapshotWay,
    "TookEffect": errors.TookEffect,
    "NetworkMode": network.NetworkMode,
    "ApprovalStatus": oversight.ApprovalStatus,
    "GrantScope": oversight.GrantScope,
    "ImagePull": images.ImagePull,
    "VolumeAccess": volumes.VolumeAccess,
    "BudgetPeriod": usage.BudgetPeriod,
}

NAMES = ("approvals", "archives", "audit", "client", "events", "execs", "files", "git", "images", "sandbox", "secrets", "snapshots", "volumes")
MODULES = [importlib.import_module(f"atoll._sync.{name}") for name in NAMES]


class Recorder:
    """Answers requests by examples, and notes what was sent and as what each answer was read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.operations = openapi.operations()
        self.sent: dict[str, set[str]] = {}
        self.read: dict[str, set[Any]] = {}
        self._last = ""
        self.client = atoll.Atoll("http://localhost", "e2b_00")
        self.client._connection._http = httpx.Client(
            base_url="http://localhost", transport=httpx.MockTransport(self.answer)
        )
        for module in MODULES:
            real = module.decode
            monkeypatch.setattr(module, "decode", lambda kind, value, real=real: self.note(kind, real(kind, value)))

    def note(self, kind: Any, value: Any) -> Any:
        self.read.setdefault(self._last, set()).add(kind)
        return value

    def answer(self, request: httpx.Request) -> httpx.Response:
        """An example of the answer to a request."""
        asked = next((one for one in self.operations if one.is_asked_by(request.method, request.url.path)), None)
        assert asked is not None, f"the API has no {request.method} {request.url.path}"
        self._last = asked.id
        sent = self.sent.setdefault(asked.id, set())
        sent |= set(request.url.params)
        sent |= {name for name in ("idempotency-key", "last-event-id") if name in request.headers}
        if request.headers.get("content-type") == "application/json":
            sent |= openapi.said(asked.body, json.loads(request.read()))
        return httpx.Response(200, content=iter([self.content(asked, request)]))

    def content(self, asked: openapi.Operation, request: httpx.Request) -> bytes:
        is_stream = request.headers.get("accept") == "text/event-stream"
        if asked.id in STREAMS and (is_stream or asked.answer is None):
            if "last-event-id" in asked.fields - set(request.headers):
                # Breaks off, so that it is gone on with.
                return b"id: 0-0\nevent: nothing\ndata: 0\n\n"
            kind, what = STREAMS[asked.id]
            data = json.dumps(openapi.example({"$ref": f"#/components/schemas/{what}"}))
            return f"event: {kind}\ndata: {data}\n\n".encode()
        if asked.id in ("export_volume", "read_file", "read_exec_stdout", "read_exec_stderr"):
            return b"text"
        if asked.id == "read_archive":
            return bytes(1024)
        if asked.answer is None:
            return b""
        schema = asked.answer
        if asked.id == "start_exec":
            schema = {"$ref": f"#/components/schemas/Exec{'Result' if 'wait_ms' in request.url.params else ''}"}
        value = openapi.example(schema)
        if {"cursor", "after"} & set(request.url.params):
            # The last page.
            value.pop("next", None)
        return json.dumps(value).encode()


def services() -> list[Service]:
    """Services that say all that can be said of them."""
    line, answer = ReadyLine(pattern="x", stream="stdout"), HttpAnswer(port=1, path="/", status=200)
    more: dict[str, Any] = {"user": "root", "directory": "/", "env": {"A": "b"}, "restart": "never", "ready_timeout_ms": 1}
    return [
        Service(name="a", shell="true", ready=Ready(port=1)),
        Service(name="b", command=["true", b"\xff"], ready=Ready(log=line)),
        Service(name="c", shell="true", ready=Ready(http=answer), **more),
    ]


def policy() -> NetworkPolicy:
    """A policy that says all that can be said."""
    budgets = NetworkBudgets(requests_max=1, bytes_max=1, requests_per_host_max=1, bytes_per_host_max=1)
    secrets = [
        NetworkSecret(name="A", at=["https://a"], used_as="bearer", env="A"),
        NetworkSecret(name="B", file="/run/secrets/b"),
    ]
    return NetworkPolicy(presets=["python"], allow=["a"], ask=["b"], deny=["c"], budgets=budgets, secrets=secrets)


def oversee(client: atoll.Atoll) -> None:
    """Calls every verb about secrets, approvals, images, volumes and the audit log."""
    client.secrets.set("A", "x")
    client.secrets.set("A", b"\xff")
    client.secrets.list()
    client.secrets.delete("A")
    list(client.approvals.list(status="pending", sandbox="web"))
    client.approvals.get("apr_1")
    client.approvals.approve("apr_1", scope="always", expires_in=1)
    client.approvals.deny("apr_1", reason="x")
    next(client.approvals.watch())
    list(client.audit.list(after=1, sandbox="web", kinds=["lost"], page_count=1))
    client.images.list()
    client.images.get("a")
    client.images.pull("a", on_progress=print)
    client.images.delete("a")
    client.images.prune(all=True)
    client.volumes.create("data", labels={"a": "b"}, copy_of="x", is_read_only=True, limit_bytes=1, host_path="/x")
    client.volumes.set_limit("data", None)
    list(client.volumes.list(labels={"a": "b"}, page_count=1))
    client.volumes.get("data")
    list(client.volumes.export("data"))
    client.volumes.delete("data")
    next(client.audit.follow(after=1, sandbox="web", kinds=["lost"]))


def keep_and_fork(client: atoll.Atoll, sandbox: atoll.Sandbox, making: dict[str, Any]) -> None:
    """Calls every verb about snapshots."""
    making = {name: one for name, one in making.items() if name != "workspace"}
    snapshot = sandbox.snapshot(labels={"a": "b"}, delete_after=1, keep_last=3)
    snapshot.fork(count=2, name="x", **making)
    snapshot.diff("snp_1", limit=5)
    snapshot.delete()
    sandbox.fork(count=2, name="x", snapshot_labels={"a": "b"}, snapshot_delete_after=1, **making)
    sandbox.restore(snapshot)
    client.create(snapshot=snapshot)
    client.create(template="web@2")
    client.create(pool="web")
    client.get_or_create("web", template="web")
    client.get_or_create("web", pool="web")
    list(client.snapshots.list(sandbox="web", labels={"a": "b"}, page_count=1))
    sandbox.archive(stop=True)
    sandbox.delete(keep_archive=True)
    client.archives.create(snapshot)
    client.archives.get("arc_1")
    list(client.archives.list(page_count=1))
    client.archives.restore("arc_1")
    client.archives.delete("arc_1")
    client.snapshots.get("snp_1")
    client.snapshots.delete("snp_1")


def do_everything(client: atoll.Atoll, folder: Path) -> None:
    """Calls every verb with all that it takes."""
    limits = Limits(pids=1, memory_bytes=1, cpus_milli=1, disk_bytes=1)
    budget = Budget(cpu_us=1, memory_mib_seconds=1, bytes_sent=1, bytes_received=1)
    lifecycle = Lifecycle(lease_ms=1, idle_stop_ms=1, archive_after_ms=1, delete_after_ms=1, max_lifetime_ms=1)
    making: dict[str, Any] = {
        "image": "x",
        "image_pull": "always",
        "snapshot": "snp_1",
        "env": {"A": "b"},
        "labels": {"a": "b"},
        "limits": limits,
        "lifecycle": lifecycle,
        "budget": budget,
        "services": services(),
        "network": policy(),
        "exec_ask": ["git push *"],
        "volumes": [volumes.VolumeMount(volume="data", path="/data", access="shared")],
        "workspace": Workspace(path="/x", git=WorkspaceGit(url="/y", branch="main", depth=1)),
    }
    sandbox = client.create(name="web", **making)
    client.get_or_create("web", **making)
    client.get("web")
    list(client.list(states=["running"], labels={"a": "b"}, page_count=1))
    next(client.events(after=1))
    next(sandbox.events(after=1))
    client.capabilities()
    client.budgets()
    client.usage(labels={"a": "b"}, page_count=1, cursor="x")
    client.health()
    client.keys.create("run", note="x")
    client.keys.list()
    client.keys.revoke("key_1")
    oversee(client)
    for verb in ("refresh", "start", "pause", "resume", "stop", "kill", "delete", "health", "timeline", "usage", "ports", "services"):
        getattr(sandbox, verb)()
    of_image = ("image", "image_pull", "snapshot")
    keep_and_fork(client, sandbox, {name: one for name, one in making.items() if name not in of_image})
    sandbox.set_lifecycle(lifecycle)
    sandbox.set_budget(budget)
    sandbox.network()
    sandbox.set_network(policy())
    sandbox.denials(cursor=1)
    sandbox.restart_service("web")
    sandbox.expose(1, visibility="public", expires_in=1)
    sandbox.unexpose(1)
    sandbox.wait_for_port(1)
    sandbox.wait_for_log("exe_1", "x", stream="stdout")
    sandbox.wait_for_http(1, path="/", status=200)
    running: dict[str, Any] = {
        "session": "main",
        "user": "root",
        "directory": "/",
        "env": {"A": "b"},
        "timeout": 1,
        "keep_bytes": 1,
        "name": "x",
        "approval_timeout": 1,
    }
    sandbox.exec("true", on_disconnect="kill", **running)
    sandbox.session("main").exec("true")
    command = sandbox.execs.start(["true"], stdin="pipe", terminal=(1, 2), **running)
    sandbox.execs.list()
    sandbox.execs.get("exe_1")
    command.refresh()
    command.wait(1)
    list(command.events())
    for stream in typing.get_args(models.StreamName):
        list(command.logs(stream, offset=0, follow=True))
    command.write("x")
    command.close_stdin()
    command.signal("TERM", target="group")
    command.cancel(signal="TERM", grace=1)
    command.resize(1, 2)
    command.forget()
    files = sandbox.files
    files.read("/x", offset=0, length=4)
    files.write("/x", "x", existing="replace", mode="0644", make_parents=True)
    files.list("/", depth=1, limit=1)
    files.stat("/", follow=True)
    files.make_directory("/x", mode="0755", make_parents=True)
    files.remove("/x", recursive=True)
    files.move("/x", "/y", replace=True)
    files.set_mode("/x", "0644")
    files.edit("/x", replacements=[Replacement(old="a", new="b")])
    files.glob("/", "*", respects_ignore=True, limit=1)
    files.grep("/", "x", is_literal=True, ignores_case=True, include=["*"], respects_ignore=True, limit=1)
    next(files.watch("/", recursive=True))
    files.upload(folder, "/x", make_parents=True)
    files.download("/x", folder / "x")
    git = sandbox.git
    git.clone("/x", "/y", branch="main", depth=1)
    git.status("/y")
    git.diff("/y", staged=True, source="a", to="b")
    git.checkout("/y", "main", create=True)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recorder:
    recorder = Recorder(monkeypatch)
    do_everything(recorder.client, tmp_path)
    return recorder


def test_every_operation_has_a_verb(recorder: Recorder) -> None:
    ids = {one.id for one in recorder.operations}
    assert set(recorder.sent) == ids - set(LEFT_OUT)
    assert set(LEFT_OUT) <= ids


def test_requests_say_all_that_they_can(recorder: Recorder) -> None:
    described = {one.id: one.fields for one in recorder.operations}
    unknown = {f"{id}.{one}" for id, sent in recorder.sent.items() for one in sent - described[id]}
    assert unknown == set()
    unsent = {f"{id}.{one}" for id, sent in recorder.sent.items() for one in described[id] - sent}
    # What is not said has no parts either.
    within = {one for one in unsent if any(one.startswith(f"{whole}.") for whole in UNSENT)}
    assert unsent - within == set(UNSENT)


def test_models_have_all_that_answers_have(recorder: Recorder) -> None:
    unread: set[str] = set()
    for one in recorder.operations:
        if one.answer is None or one.id in LEFT_OUT:
            continue
        schema = enveloped(one.answer) or one.answer
        kinds = recorder.read.get(one.id, set())
        assert kinds, f"the answer to {one.id} is not read"
        found = [lacking(schema, kind) for kind in kinds]
        # Where one thing or another is answered, each is read as what it is.
        unread |= set.intersection(*found)
    for name, kind in EVENTS.items():
        unread |= lacking({"$ref": f"#/components/schemas/{name}"}, kind)
    assert unread == set(UNREAD)


@pytest.mark.parametrize("name", LITERALS)
def test_words_are_those_of_the_api(name: str) -> None:
    assert set(get_args(LITERALS[name])) == set(openapi.DOCUMENT["components"]["schemas"][name]["enum"])


def test_every_code_has_a_class() -> None:
    assert set(errors.CODES) == set(openapi.DOCUMENT["components"]["schemas"]["ErrorCode"]["enum"])


def test_an_error_says_all_that_the_api_says() -> None:
    said = openapi.example({"$ref": "#/components/schemas/ApiError"})
    said["retry"] = {"kind": "after", "after_ms": 7}
    error = errors.from_wire(said)
    found = {name: getattr(error, name) for name in said}
    assert {**found, "retry": {"kind": error.retry, "after_ms": error.retry_after_ms}} == said


@pytest.mark.parametrize("prefix", ["", "Async"])
def test_the_verbs_of_the_table_are_there(prefix: str) -> None:
    rows = re.findall(r"^\| (.*?) ?\| (`\w.*) \|$", (ROOT / "sdk/README.md").read_text(), re.MULTILINE)
    table: dict[str, set[str]] = {}
    owner = ""
    kinds = {"client": "Atoll", "sandbox": "Sandbox", "`sandbox.execs`": "Execs", "command": "Exec"}
    kinds |= {"`sandbox.files`": "Files", "`sandbox.git`": "Git", "`client.keys`": "Keys", "`client.secrets`": "Secrets"}
    kinds |= {"`client.snapshots`": "Snapshots", "snapshot": "Snapshot", "`client.archives`": "Archives"}
    kinds |= {"`client.approvals`": "Approvals", "`client.audit`": "Audit", "`client.images`": "Images", "`client.volumes`": "Volumes"}
    for on, verbs in rows:
        owner = kinds.get(on.split(" (")[0], owner)
        table.setdefault(owner, set()).update(re.findall(r"`([a-z][\w.()]*)`", verbs))
    assert rows and set(table) == set(kinds.values())
    for owner, verbs in table.items():
        kind = getattr(atoll, prefix + owner)
        own = {one for one in verbs if "." not in one}
        own |= {"session"} if owner == "Sandbox" else set()
        public = {one for one, what in inspect.getmembers(kind, inspect.isfunction) if not one.startswith("_")}
        assert public - own <= {"close", "aclose", "start_as", "run", "run_told"}, owner
        assert own <= public, owner


def enveloped(schema: Any) -> Any:
    """What a list that is answered is of."""
    found = {name: one for name, one in openapi.properties(schema).items() if name != "next"}
    [first, *others] = found.values()
    return first["items"] if first.get("type") == "array" and not others else None


def lacking(schema: Any, kind: Any) -> set[str]:
    """Fields of a schema that a type does not have."""
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(one for one in get_args(kind) if one is not type(None))
    origin = get_origin(kind)
    resolved = openapi.resolve(schema)
    if resolved.get("type") == "array":
        is_list = origin in (tuple, Sequence)
        return lacking(resolved["items"], get_args(kind)[0]) if is_list else {openapi.name(schema)}
    if not dataclasses.is_dataclass(kind):
        return set() if is_whole(schema, kind) else {f"{openapi.name(schema)} as {kind}"}
    hints = typing.get_type_hints(kind)
    fields = {one.metadata.get("wire", one.name): hints[one.name] for one in dataclasses.fields(kind)}
    missing: set[str] = set()
    for name, one in openapi.properties(schema).items():
        missing |= lacking(one, fields[name]) if name in fields else {f"{openapi.name(schema)}.{name}"}
    return missing


def is_whole(schema: Any, kind: Any) -> bool:
    """Whether a type that has no fields shows all of something."""
    origin = get_origin(kind)
    if kind is Any or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return True
    if origin is Literal:
        return all(set(one.get("enum", [])) <= set(get_args(kind)) for one in openapi.variants(schema))
    texts = {"Octets": str, "Output": bytes, "Timestamp": datetime}
    names = {openapi.name(schema), *(openapi.name(one) for one in schema.get("oneOf", []))}
    wanted = next((one for name, one in texts.items() if name in names), None)
    if wanted is not None:
        return kind is wanted
    simple = {"string": str, "integer": int, "boolean": bool}
    for one in openapi.variants(schema):
        words = one.get("type")
        if not any(simple.get(word) is kind for word in (words if isinstance(words, list) else [words])):
            return False
    return True
