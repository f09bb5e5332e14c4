"""JSON of the API to Python and back."""

from __future__ import annotations

import base64
import dataclasses
import functools
import os
import secrets
import types
import typing
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, Union, get_args, get_origin
from urllib.parse import quote, urlencode

Text = str | bytes | os.PathLike[str]
"""A path or an argument. Bytes that are not UTF-8 are kept; in `str` they are surrogates, as Python has them."""

T = TypeVar("T")


def raw(text: Text) -> bytes:
    """The bytes, whatever the locale."""
    plain = os.fspath(text)
    return plain if isinstance(plain, bytes) else plain.encode("utf-8", "surrogateescape")


def octets(text: Text) -> Any:
    """Writes bytes as the API has them: a string, or hex where they are not UTF-8."""
    try:
        return raw(text).decode()
    except UnicodeDecodeError:
        return {"hex": raw(text).hex()}


def query(**fields: Any) -> str:
    """A query, without the fields that say nothing; a list is a field for each item."""
    pairs: list[tuple[str, str | bytes]] = []
    for name, value in fields.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, bool):
                pairs.append((name, "true" if one else "false"))
            elif one is not None:
                pairs.append((name, one if isinstance(one, bytes) else str(one)))
    return urlencode(pairs)


def segment(text: str) -> str:
    """A part of a path of the API."""
    return quote(text, safe="")


def new_exec_id() -> str:
    """An id that nothing else has, so that a request that is sent again runs nothing twice."""
    return f"exe_{secrets.token_hex(10)}"


def body(**fields: Any) -> dict[str, Any]:
    """A request, without the fields that say nothing."""
    return {name: _encode(value) for name, value in fields.items() if value is not None}


def _encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return body(**{one.metadata.get("wire", one.name): getattr(value, one.name) for one in fields})
    if isinstance(value, Mapping):
        return {name: _encode(one) for name, one in value.items()}
    if isinstance(value, str | bytes):
        return octets(value)
    if isinstance(value, Sequence):
        return [_encode(one) for one in value]
    return value


def milliseconds(seconds: float | None) -> int | None:
    """Whole milliseconds, at least one of them for what is more than none."""
    if seconds is None:
        return None
    return max(1, round(seconds * 1000)) if seconds > 0 else round(seconds * 1000)


def start_exec(
    command: str | Sequence[Text],
    *,
    id: str | None,
    session: str | None,
    user: str | None,
    directory: Text | None,
    env: Mapping[str, str] | None,
    stdin: str | None,
    terminal: tuple[int, int] | None,
    timeout: float | None,
    keep_bytes: int | None,
    on_disconnect: str | None,
    name: str | None,
) -> dict[str, Any]:
    """The request to run a command: a string is for a shell, a list is a program and its arguments."""
    is_shell = isinstance(command, str)
    return body(
        id=id or new_exec_id(),
        shell=command if is_shell else None,
        command=None if is_shell else [octets(word) for word in command],
        session=session,
        user=user,
        directory=None if directory is None else octets(directory),
        env=env,
        stdin=stdin,
        terminal=None if terminal is None else {"rows": terminal[0], "columns": terminal[1]},
        timeout_ms=milliseconds(timeout),
        keep_bytes=keep_bytes,
        on_disconnect=on_disconnect,
        name=name,
    )


def decode(kind: type[T], value: Any) -> T:
    """Reads an answer, and ignores fields that are not known."""
    return typing.cast(T, _decode(kind, value))


def _decode(kind: Any, value: Any) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return _decode(next(one for one in get_args(kind) if one is not type(None)), value)
    if origin in (tuple, Sequence):
        return tuple(_decode(get_args(kind)[0], one) for one in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict(value)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        found = {name: _decode(one, value[wire]) for name, wire, one in _fields(kind) if wire in value}
        return kind(**found)
    if kind is datetime:
        return datetime.fromisoformat(value)
    if kind is bytes:
        return printed(value)
    if kind is str and isinstance(value, Mapping):
        return bytes.fromhex(value["hex"]).decode("utf-8", "surrogateescape")
    return value


@functools.cache
def _fields(kind: type) -> list[tuple[str, str, Any]]:
    hints = typing.get_type_hints(kind)
    return [
        (one.name, one.metadata.get("wire", one.name), hints[one.name])
        for one in dataclasses.fields(kind)
    ]


def printed(output: Mapping[str, Any]) -> bytes:
    """The bytes of an `Output`."""
    if "text" in output:
        return str(output["text"]).encode()
    return base64.b64decode(output["base64"])
