"""Requests: sent, sent again where that is safe, and streams that go on where they broke."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import httpx

from .. import _host, errors
from .._sse import Parser, ServerSentEvent
from . import io

ANSWER_SECONDS = 60.0
"""How long an answer may take to begin, beyond what was asked to be waited."""

TRIES = 8
"""How often in a row something is tried that cannot be reached or breaks without having got further."""

PAUSE_SECONDS_MAX = 3.0

OPENED = "\0opened"
"""The kind of what `Connection.events` tells by itself; no server says it."""


def pause(failures: int) -> float:
    """How long to wait after so many failures in a row."""
    return min(0.05 * 2.0**failures, PAUSE_SECONDS_MAX)


class Connection:
    """One server. Safe to be used by many at once."""

    def __init__(self, host: str | None, api_key: str | None, silence_seconds: float) -> None:
        self.host = _host.find(host)
        key = _host.key(api_key)
        headers = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "atoll-python"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        self._silence_seconds = silence_seconds
        self._was_reached = False
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        transport = None
        if self.host.socket is not None:
            transport = httpx.HTTPTransport(uds=self.host.socket, limits=limits)
        self._http = httpx.Client(
            base_url=self.host.base_url,
            headers=headers,
            limits=limits,
            transport=transport,
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=10.0, pool=None),
        )

    def close(self) -> None:
        """Closes all connections."""
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        body: Any = None,
        content: bytes | Iterator[bytes] | None = None,
        headers: dict[str, str] | None = None,
        is_repeatable: bool | None = None,
        wait_seconds: float = 0.0,
    ) -> httpx.Response:
        """Sends a request and gives its answer, if that is no error.

        One that can be repeated without happening twice is sent again where the connection broke, and any where
        nothing was sent or the server says that it is too early.
        """
        if is_repeatable is None:
            is_repeatable = method == "GET"
        failures = 0
        while True:
            try:
                response = self._http.request(
                    method,
                    f"{path}?{query}" if query else path,
                    json=body,
                    content=content,
                    headers=headers,
                    timeout=httpx.Timeout(ANSWER_SECONDS, connect=10.0, read=ANSWER_SECONDS + wait_seconds, pool=None),
                )
            except httpx.TransportError as cause:
                error = self.failure(cause)
                failures += 1
                is_unsent = error.kind == "unreachable" and self._was_reached
                is_whole = content is None or isinstance(content, bytes)
                may_repeat = is_whole and (is_unsent or (is_repeatable and error.kind == "broken"))
                if not may_repeat or failures >= TRIES:
                    raise error from cause
                io.sleep(pause(failures))
                continue
            self._was_reached = True
            if response.is_success:
                return response
            problem = parse_error(response)
            if not is_too_early(problem) or not (content is None or isinstance(content, bytes)):
                raise problem
            failures += 1
            if failures >= TRIES:
                raise problem
            io.sleep((problem.retry_after_ms or 100) / 1000)

    def health(self) -> httpx.Response:
        """Asks how the server is; 503 is an answer too."""
        try:
            return self._http.get("/healthz")
        except httpx.TransportError as cause:
            raise self.failure(cause) from cause

    @contextmanager
    def stream(
        self, path: str, *, query: str = "", headers: dict[str, str] | None = None, method: str = "GET", body: Any = None
    ) -> Iterator[httpx.Response]:
        """Opens an answer that goes on. It breaks with `httpx.TransportError`, also if it is silent too long."""
        timeout = httpx.Timeout(ANSWER_SECONDS, connect=10.0, read=self._silence_seconds, pool=None)
        url = f"{path}?{query}" if query else path
        with self._http.stream(method, url, json=body, headers=headers, timeout=timeout) as response:
            self._was_reached = True
            if not response.is_success:
                response.read()
                raise parse_error(response)
            yield response

    def events(
        self,
        path: str,
        *,
        query: str = "",
        last_id: str | None = None,
        tells_opening: bool = False,
        method: str = "GET",
        body: Any = None,
    ) -> Iterator[ServerSentEvent]:
        """Follows server-sent events, and goes on behind the last one where the connection breaks.

        It never ends by itself: whoever reads knows which event is the last. With `tells_opening` an event `OPENED`
        says that there is a connection, at the beginning and wherever another one takes its place.
        """
        parser = Parser(last_id)
        failures = 0
        while True:
            headers = {"accept": "text/event-stream", "cache-control": "no-store"}
            if parser.last_id is not None:
                headers["last-event-id"] = parser.last_id
            try:
                with self.stream(path, query=query, headers=headers, method=method, body=body) as response:
                    if tells_opening:
                        yield ServerSentEvent(OPENED, "", None)
                    for piece in response.iter_raw():
                        failures = 0
                        for event in parser.feed(piece):
                            yield event
                raise httpx.RemoteProtocolError("the stream ended before its last event")
            except httpx.TransportError as cause:
                failures += 1
                if failures >= TRIES or not self._was_reached:
                    raise self.failure(cause) from cause
                parser = Parser(parser.last_id)
                io.sleep(pause(failures))
            except errors.ApiError as problem:
                failures += 1
                if failures >= TRIES or not is_too_early(problem):
                    raise
                io.sleep((problem.retry_after_ms or 100) / 1000)

    def failure(self, cause: httpx.TransportError) -> errors.ConnectionError:
        """Says what happened to a connection."""
        if isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout | httpx.UnsupportedProtocol):
            return errors.ConnectionError(
                f"no server answers at {self.host.text}: {cause}",
                kind="unreachable",
                took_effect="no",
                retry="safe",
                next_step="start one with `atoll serve`, or say where it is with ATOLL_HOST",
            )
        kind: Literal["silent", "broken"] = "silent" if isinstance(cause, httpx.TimeoutException) else "broken"
        how = "did not answer in time" if kind == "silent" else "ended the connection before it answered"
        return errors.ConnectionError(
            f"the server at {self.host.text} {how}: {cause}",
            kind=kind,
            took_effect="unknown",
            next_step="look at how things are before asking again",
        )


def parse_error(response: httpx.Response) -> errors.ApiError:
    """Reads an answer that is an error."""
    try:
        return errors.from_wire(response.json()["error"], response.status_code)
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        return errors.ApiError(
            f"the answer was {response.status_code} and not from an Atoll server",
            status=response.status_code,
            next_step="check the address of the server",
        )


def is_too_early(problem: errors.ApiError) -> bool:
    """Whether it was only asked too often, which a moment cures."""
    return isinstance(problem, errors.Capacity) and problem.details.get("limit") == "requests_per_second_max"
