"""Steps of scenarios, done by either of the two SDKs."""

from __future__ import annotations

import asyncio
import inspect
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import atoll
from atoll import NetworkBudgets, NetworkPolicy, NetworkSecret, VolumeMount
from atoll.models import Dropped, Finished, Lifecycle, Output, Ready, Replacement, Service, Started
from atoll.usage import Budget

from compare import difference, octets, plain
from serving import Proxy, Server, wait_until

SECONDS = {
    "timeout_ms": "timeout",
    "grace_ms": "grace",
    "expires_in_ms": "expires_in",
    "approval_timeout_ms": "approval_timeout",
}
ON_CLIENT = {"create", "get", "get_or_create", "list", "usage_of_all", "capabilities", "health"}
ON_CLIENT_TOO = ("keys.", "snapshots.", "archives.", "secrets.", "approvals.", "audit.", "images.", "volumes.")
OWN = {"exec.stream", "files.write_many", "fetch", "events", "files.watch", "keys.create"}
OWN |= {"approvals.watch", "audit.follow"}


class Player:
    """Plays scenarios against a server."""

    def __init__(self, server: Server, kind: type[Any]) -> None:
        self._server = server
        self._kind = kind
        self._loop = asyncio.new_event_loop() if kind is atoll.AsyncAtoll else None
        self._client = kind(server.host)
        self._made: list[Any] = []
        self._saved: dict[str, Any] = {}

    def play(self, scenario: dict[str, Any]) -> None:
        """Does the steps one by one."""
        # The site of `internet.py` is at another port each time.
        scenario = json.loads(json.dumps(scenario).replace("{port}", str(self._server.internet.port)))
        try:
            sandbox = None
            if scenario.get("sandbox", {}) is not None:
                sandbox = self.call(self._client.create, self.arguments(scenario.get("sandbox", {})))
                self._made.append(sandbox)
                self._saved["sandbox"] = sandbox
            for number, step in enumerate(scenario["steps"], 1):
                problem = self.step(step, sandbox)
                assert problem is None, f"step {number}, {step['do']}: {problem}"
        finally:
            for one in self._made:
                try:
                    self.settle(one.delete())
                except atoll.NotFound:
                    pass

    def close(self) -> None:
        """Closes its connections."""
        self.close_client(self._client)
        if self._loop is not None:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def close_client(self, client: Any) -> None:
        """Closes the connections of one client."""
        self.settle(client.aclose() if self._loop is not None else client.close())

    def step(self, step: dict[str, Any], sandbox: Any) -> str | None:
        """Does one step, and says how it is not as it should be."""
        if step.get("until"):
            problems: list[str | None] = []

            def look() -> bool:
                problems.append(self.once(step, sandbox))
                return problems[-1] is None

            try:
                wait_until(step["do"], look)
            except AssertionError:
                return problems[-1]
            return None
        return self.once(step, sandbox)

    def once(self, step: dict[str, Any], sandbox: Any) -> str | None:
        proxy = client = None
        try:
            if step.get("cut_after_bytes"):
                proxy = Proxy(self._server.socket, step["cut_after_bytes"])
                client = self._kind(proxy.host)
            result = self.beside(step, sandbox) if "meanwhile" in step else self.do(step, sandbox, client)
            if proxy is not None and proxy.cut_count != len(step["cut_after_bytes"]):
                return f"{proxy.cut_count} connections were cut"
        except atoll.AtollError as error:
            if "fails" not in step:
                raise
            return difference(self.resolve(step["fails"]), plain(error), "error")
        finally:
            if client is not None:
                self.close_client(client)
            if proxy is not None:
                proxy.close()
        if "fails" in step:
            return f"it did not fail, but gave {plain(result)!r:.500}"
        if "as" in step:
            self._saved[step["as"]] = result
        return difference(self.resolve(step["gives"]), plain(result)) if "gives" in step else None

    def beside(self, step: dict[str, Any], sandbox: Any) -> Any:
        """Does a step by a client of its own, and other steps before that has ended."""
        other = Player(self._server, self._kind)
        other._saved = self._saved
        with ThreadPoolExecutor() as pool:
            going = pool.submit(other.do, step, sandbox, other._client)
            try:
                for number, one in enumerate(step["meanwhile"], 1):
                    problem = self.step(one, sandbox)
                    assert problem is None, f"meanwhile {number}, {one['do']}: {problem}"
                return going.result()
            finally:
                going.exception()
                other.close()

    def do(self, step: dict[str, Any], sandbox: Any, client: Any) -> Any:
        verb = step["do"]
        arguments = self.resolve(step.get("with", {}))
        target = self._saved[step["on"]] if "on" in step else sandbox
        if verb in OWN:
            if client is not None:
                target = self.through(client, target, verb)
            return getattr(self, "do_" + verb.replace(".", "_"))(step, arguments, target, client or self._client)
        if verb == "set_network":
            arguments = {"policy": arguments}
        if verb in ON_CLIENT or verb.startswith(ON_CLIENT_TOO):
            target = client or self._client
        elif client is not None:
            target = self.through(client, target, verb)
        for part in verb.removeprefix("exec.").removeprefix("snapshot.").removesuffix("_of_all").split("."):
            target = getattr(target, part)
        result = self.call(target, self.arguments(arguments))
        if verb in ("create", "get_or_create"):
            self._made.append(result)
        if isinstance(result, atoll.Forks | atoll.AsyncForks):
            self._made.extend(result)
        return result

    def through(self, client: Any, target: Any, verb: str) -> Any:
        """The same sandbox or command by another client."""
        clone = object.__new__(type(target))
        for name, value in vars(target).items():
            setattr(clone, name, value)
        for part in (clone, *(getattr(clone, name, None) for name in ("execs", "files", "git"))):
            if part is None:
                continue
            if part is not clone:
                copy = object.__new__(type(part))
                copy.__dict__.update(vars(part))
                names = [name for name, value in vars(clone).items() if value is part]
                setattr(clone, names[0], copy)
                part = copy
            part._connection = client._connection
        return clone

    def call(self, method: Any, arguments: dict[str, Any]) -> Any:
        positional = [arguments.pop("command")] if "command" in arguments and method.__name__ != "wait_for_log" else []
        result = self.settle(method(*positional, **arguments))
        if isinstance(result, Iterator):
            pieces = list(result)
            return b"".join(pieces) if pieces and isinstance(pieces[0], bytes) else pieces
        return result

    def settle(self, result: Any) -> Any:
        """What an awaitable comes to; an iterator instead of an asynchronous one."""
        if inspect.isawaitable(result):
            assert self._loop is not None
            return self._loop.run_until_complete(result)
        return self.iterate(result) if isinstance(result, AsyncIterator) else result

    def iterate(self, source: AsyncIterator[Any]) -> Iterator[Any]:
        """An asynchronous iterator, step by step."""
        assert self._loop is not None
        while True:
            try:
                yield self._loop.run_until_complete(anext(source))
            except StopAsyncIteration:
                return

    def resolve(self, value: Any) -> Any:
        """Puts earlier results in the place of their names."""
        if isinstance(value, str) and value.startswith("$"):
            name, *fields = value[1:].split(".")
            found = self._saved[name]
            if not fields:
                return found.id
            found = plain(found)
            for one in fields:
                found = found[int(one)] if isinstance(found, list) else found[one]
            return found
        if isinstance(value, dict):
            return {key: self.resolve(one) for key, one in value.items()}
        return [self.resolve(one) for one in value] if isinstance(value, list) else value

    def arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        """Arguments as Python names them, with times in seconds."""
        made: dict[str, Any] = {}
        for name, value in given.items():
            if name in SECONDS:
                made[SECONDS[name]] = value / 1000
            elif name == "from":
                made["source"] = value
            elif name == "shell":
                made["command"] = value
            elif name == "exec":
                made["command" if "pattern" in given else "id"] = value
            elif name == "lifecycle":
                made[name] = Lifecycle(**value)
            elif name == "budget":
                made[name] = Budget(**value)
            elif name in ("idle_stop_ms", "lease_ms"):
                made["lifecycle"] = Lifecycle(**given)
            elif name in ("network", "policy"):
                made[name] = network(value)
            elif name == "replacements":
                made[name] = [Replacement(**one) for one in value]
            elif name == "volumes":
                made[name] = [VolumeMount(**one) for one in value]
            elif name == "services":
                made[name] = [Service(**{**one, "ready": Ready(**one["ready"])}) for one in value]
            elif isinstance(value, dict) and "hex" in value:
                made[name] = octets(value)
            elif isinstance(value, list):
                made[name] = [octets(one) if isinstance(one, dict) else one for one in value]
            else:
                made[name] = value
        return made

    def do_approvals_watch(self, step: Any, arguments: Any, target: Any, client: Any) -> Any:
        seen: list[Any] = []
        for approval in self.settle(client.approvals.watch()):
            if approval.id != arguments["approval"]:
                continue
            if not seen and "while" in step:
                problem = self.once(step["while"], target)
                assert problem is None, problem
            seen.append(approval)
            if approval.status == arguments["until"]:
                return seen

    def do_audit_follow(self, step: Any, arguments: Any, target: Any, client: Any) -> Any:
        seen: list[Any] = []
        until = arguments.pop("until")
        for record in self.settle(client.audit.follow(**arguments)):
            seen.append(record)
            if record.what.kind == until:
                return seen

    def do_keys_create(self, step: Any, arguments: Any, target: Any, client: Any) -> Any:
        return self.settle(client.keys.create(arguments["scope"], note=arguments["note"]))

    def do_exec_stream(self, step: Any, arguments: Any, target: Any, client: Any) -> Any:
        command = self.call(target.execs.start, self.arguments(arguments))
        kinds: list[str] = []
        printed = {"stdout": b"", "stderr": b""}
        names = {Started: "started", Output: "output", Dropped: "dropped", Finished: "ended"}
        for event in self.settle(command.events()):
            kind = names[type(event)]
            if kinds[-1:] != [kind]:
                kinds.append(kind)
            if isinstance(event, Output):
                assert event.offset == len(printed[event.stream])
                printed[event.stream] += event.data
        ended = command.info.ended
        return {"kinds": kinds, **printed, "exit_code": ended.exit_code, "signal": ended.signal}

    def do_files_write_many(self, step: Any, arguments: Any, target: Any, client: Any) -> Any:
        left = arguments["bytes"]
        pieces = (b"a" * min(65536, left - at) for at in range(0, left, 65536))
        return self.settle(target.files.write(arguments["path"], pieces))

    def do_fetch(self, step: Any, arguments: Any, target: Any, client: Any) -> Any:
        try:
            with urllib.request.urlopen(arguments["url"], timeout=20) as response:
                return {"status": response.status, "body": response.read()}
        except urllib.error.HTTPError as error:
            with error:
                return {"status": error.code, "body": error.read()}

    def do_events(self, step: Any, arguments: Any, target: Any, client: Any) -> Any:
        seen = []
        for event in self.settle(target.events(after=arguments["after"])):
            seen.append(event)
            if event.what.kind == arguments["until"]:
                return seen

    def do_files_watch(self, step: Any, arguments: Any, target: Any, client: Any) -> Any:
        seen = []
        until = arguments.pop("until")
        for event in self.settle(target.files.watch(**arguments)):
            if event.kind == "ready":
                problem = self.once(step["while"], target)
                assert problem is None, problem
            seen.append(event)
            if event.path == until:
                return seen


def network(given: dict[str, Any]) -> NetworkPolicy:
    """A policy as Python has it."""
    made = dict(given)
    if "budgets" in made:
        made["budgets"] = NetworkBudgets(**made["budgets"])
    if "secrets" in made:
        named = [{("used_as" if name == "as" else name): value for name, value in one.items()} for one in made["secrets"]]
        made["secrets"] = [NetworkSecret(**one) for one in named]
    return NetworkPolicy(**made)
