"""Results in the one form of `scenarios.json`, and what it says they must be like."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import atoll
from atoll.models import ExecResult

RESULT_FIELDS = (
    "exit_code signal cause timed_out stdout stderr stdout_bytes stderr_bytes stdout_dropped_bytes stderr_dropped_bytes denials"
)


def plain(value: Any) -> Any:
    """The form that results are compared in."""
    if isinstance(value, ExecResult):
        return {name: plain(getattr(value, name)) for name in RESULT_FIELDS.split()}
    if isinstance(value, atoll.AtollError):
        retry = {"kind": value.retry, "after_ms": value.retry_after_ms}
        names = ("code", "message", "took_effect", "next_step", "details")
        kind = type(value).__name__.removesuffix("Error")
        return {**{name: getattr(value, name) for name in names}, "retry": retry, "class": kind}
    if isinstance(value, atoll.Forks | atoll.AsyncForks):
        return {name: plain(getattr(value, name)) for name in ("ok", "snapshot_id", "sandboxes", "errors")}
    if hasattr(value, "info"):
        return plain(value.info)
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {one.metadata.get("wire", one.name): plain(getattr(value, one.name)) for one in fields}
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str):
        return plain_bytes(value.encode("utf-8", "surrogateescape"))
    return plain_bytes(value) if isinstance(value, bytes) else value


def plain_bytes(value: bytes) -> Any:
    """A string where they are UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"hex": value.hex()}


def octets(value: Any) -> bytes:
    """The bytes of a text or of hex."""
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else str(value).encode()


def difference(expected: Any, found: Any, at: str = "result") -> str | None:
    """Says where `found` is not like `expected`, if it is not."""
    if isinstance(expected, dict) and any(key.startswith("$") for key in expected):
        [(rule, wanted)] = expected.items()
        return None if judge(rule, wanted, found) else f"{at} is {found!r:.500}, not {expected}"
    if isinstance(expected, dict) and isinstance(found, dict):
        found_ones = (difference(one, found.get(key), f"{at}.{key}") for key, one in expected.items())
        return next((one for one in found_ones if one), None)
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return next((one for i, (e, f) in pairs if (one := difference(e, f, f"{at}[{i}]"))), None)
    is_equal = type(expected) is type(found) and expected == found
    return None if is_equal else f"{at} is {found!r:.500}, not {expected!r:.500}"


def judge(rule: str, wanted: Any, found: Any) -> bool:
    """Whether a rule holds."""
    match rule:
        case "$matches":
            return isinstance(found, str) and re.search(wanted, found) is not None
        case "$has":
            return all(any(difference(one, item) is None for item in found) for one in wanted)
        case "$none":
            return all(difference(wanted, item) is not None for item in found)
        case "$at_least":
            return isinstance(found, int) and found >= wanted
        case "$at_most":
            return isinstance(found, int) and found <= wanted
        case "$count":
            return len(found if isinstance(found, list) else octets(found)) == int(wanted)
        case "$sha256":
            return hashlib.sha256(octets(found)).hexdigest() == str(wanted)
        case "$absent":
            return found is None
    raise AssertionError(f"there is no rule {rule}")
