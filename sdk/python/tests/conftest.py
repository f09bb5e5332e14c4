"""Servers for the tests: as root and as an ordinary user, where root runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from serving import ORDINARY, Server, skip


@pytest.fixture(scope="session", params=["root", "user"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server, as this or that user."""
    is_root = os.getuid() == 0
    if request.param == "root" and not is_root:
        skip("sdk-as-root", "run by an ordinary user")
        pytest.skip("run by an ordinary user")
    served = Server(ORDINARY if is_root and request.param == "user" else None)
    try:
        yield served
    finally:
        served.close()
