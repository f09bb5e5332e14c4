"""What `openapi/v1.json` says, and examples of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from serving import ROOT

DOCUMENT: dict[str, Any] = json.loads((ROOT / "openapi/v1.json").read_text())


TELLING = {"ExecState": "ended", "FileKind": "directory"}
"""Words by which more is asked for, or no more."""


@dataclass(frozen=True)
class Operation:
    """A method of a route."""

    id: str
    method: str
    path: str
    fields: frozenset[str]
    """What a request may have, in its query, in a header or in its body."""
    body: Any
    """The schema of a body in JSON."""
    answer: Any
    """The schema of what is answered in JSON; None if that is nothing, or no JSON."""

    def is_asked_by(self, method: str, path: str) -> bool:
        """Whether a request is for it."""
        return method == self.method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", self.path), path) is not None


def operations() -> list[Operation]:
    """All of them; ones without variable parts first, as routers have it."""
    found = [
        operation(method, path, described)
        for path, methods in DOCUMENT["paths"].items()
        for method, described in methods.items()
    ]
    return sorted(found, key=lambda one: one.path.count("{"))


def operation(method: str, path: str, described: dict[str, Any]) -> Operation:
    """One of them."""
    parameters = described.get("parameters", [])
    names = {one["name"].lower() for one in parameters if one["in"] != "path"}
    body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    names |= sayable(body)
    good = [answer for status, answer in described["responses"].items() if status.startswith("2")]
    answers = [one.get("content", {}).get("application/json", {}).get("schema") for one in good]
    answer = next((one for one in answers if one), None)
    return Operation(described["operationId"], method.upper(), path, frozenset(names), body, answer)


def resolve(schema: Any) -> Any:
    """The schema that a reference means."""
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def name(schema: Any) -> str:
    """What it is called."""
    return str(schema["$ref"].rsplit("/", 1)[1]) if "$ref" in schema else ""


def variants(schema: Any) -> Iterator[Any]:
    """What it may be: itself, or one of several."""
    schema = resolve(schema)
    if "oneOf" not in schema:
        yield schema
    for one in schema.get("oneOf", []):
        if one.get("type") != "null":
            yield from variants(one)


def properties(schema: Any) -> dict[str, Any]:
    """All properties of it, whichever variant it is and whatever it is made of."""
    found: dict[str, Any] = {}
    for one in variants(schema):
        for part in one.get("allOf", []):
            found |= properties(part)
        found |= one.get("properties", {})
    return found


def parts(schema: Any) -> dict[str, Any]:
    """What a request may have at this place; nothing in what is one value, however it is written."""
    found: dict[str, Any] = {}
    for one in variants(schema):
        found |= parts(one["items"]) if "items" in one else properties(one)
    return {} if set(found) == {"hex"} else found


def sayable(schema: Any) -> set[str]:
    """The paths of all that a request may have."""
    found: set[str] = set()
    for name, one in parts(schema).items():
        found |= {name} | {f"{name}.{below}" for below in sayable(one)}
    return found


def said(schema: Any, value: Any) -> set[str]:
    """The paths of what a request has."""
    if isinstance(value, list):
        return {path for one in value for path in said(schema, one)}
    if not isinstance(value, dict):
        return set()
    known = parts(schema)
    found = set(value) if known else set()
    for name in set(value) & set(known):
        found |= {f"{name}.{below}" for below in said(known[name], value[name])}
    return found


def example(schema: Any) -> Any:
    """Something that it describes, with all that it can have."""
    if name(schema) in TELLING:
        return TELLING[name(schema)]
    schema = next(variants(schema))
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "examples" in schema:
        return schema["examples"][0]
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("format") == "date-time":
        return "2026-11-30T01:10:00.123456Z"
    if "array" in kinds:
        return [example(schema["items"])]
    if "object" in kinds or "allOf" in schema:
        return {name: example(one) for name, one in properties(schema).items()}
    if "integer" in kinds:
        return schema.get("minimum", 0)
    return {"boolean": True, "string": "text"}[kinds[0]]
