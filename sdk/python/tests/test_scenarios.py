"""The scenarios that both SDKs have in common."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

import atoll

from serving import ROOT, Server, skip
from steps import Player

SCENARIOS: list[dict[str, Any]] = json.loads((ROOT / "sdk/scenarios.json").read_text())["scenarios"]

ROUTES = [
    (r"^(exec|session|terminal)", "execs"),
    (r"^wait_for", "wait"),
    (r"^git", "git/status"),
    (r"services?$", "services"),
]
"""Verbs and the routes that they need."""


def missing(server: Server, scenario: dict[str, Any]) -> str | None:
    """A route that a scenario needs and the server does not have."""
    transport = httpx.HTTPTransport(uds=str(server.socket))
    with httpx.Client(transport=transport, base_url="http://localhost") as client:
        paths = client.get("/v1/openapi.json").json()["paths"]
    verbs = [step["do"] for step in scenario["steps"]]
    verbs += [step["while"]["do"] for step in scenario["steps"] if "while" in step]
    for pattern, route in ROUTES:
        if any(re.search(pattern, verb) for verb in verbs) and f"/v1/sandboxes/{{sandbox}}/{route}" not in paths:
            return route
    return None


@pytest.mark.parametrize("kind", [atoll.Atoll, atoll.AsyncAtoll])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: str(scenario["name"]).replace(" ", "-"))
def test_scenario(server: Server, scenario: dict[str, Any], kind: type[Any]) -> None:
    route = missing(server, scenario)
    if route is not None:
        skip("sdk-routes", f"the server has no {route} yet")
        pytest.skip(f"the server has no {route} yet")
    with atoll.Atoll(server.host) as client:
        flags = client.capabilities().flags
    for flag in scenario.get("needs", []):
        if not getattr(flags, flag):
            skip(f"sdk-{flag}", f"the tier cannot {flag} here")
            pytest.skip(f"the tier cannot {flag} here")
    player = Player(server, kind)
    try:
        player.play(scenario)
    finally:
        player.close()
