"""A server, a sandbox that has the project, and a browser."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import atoll

from browser import Page
from serving import ORDINARY, Server, skip

APP = Path(__file__).parent / "app"


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the sandbox's user has at home: a repository to clone, and beside it what npm would install in the clone."""
    modules = Path(os.environ.get("ATOLL_DEMO_MODULES", APP / "node_modules"))
    if not modules.is_dir():
        skip("sdk-vite", "npm has not installed Vite")
        pytest.skip("npm has not installed Vite: npm ci in sdk/demo/app")
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(modules, home / "node_modules", symlinks=True)
    origin = home / "origin"
    shutil.copytree(APP, origin, ignore=shutil.ignore_patterns("node_modules"))
    git = ["git", "-C", str(origin), "-c", "user.name=goose", "-c", "user.email=goose@localhost"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=goose"]):
        subprocess.run([*git, *words], check=True, stdin=subprocess.DEVNULL)
    return home


@pytest.fixture(scope="session", params=["root", "user"])
def server(request: pytest.FixtureRequest, project: Path) -> Iterator[Server]:
    """A server with previews, as this or that user, and in it the sandbox `goose`."""
    is_root = os.getuid() == 0
    if request.param == "root" and not is_root:
        skip("sdk-as-root", "run by an ordinary user")
        pytest.skip("run by an ordinary user")
    uid = ORDINARY if is_root and request.param == "user" else None
    served = Server(uid, "--preview-listen", "127.0.0.1:0")
    try:
        yield served
    finally:
        served.close()


@pytest.fixture
def sandbox(server: Server, project: Path) -> Iterator[atoll.Sandbox]:
    """The sandbox in which the demo runs."""
    with atoll.Atoll(server.host) as client, client.create(name="goose") as sandbox:
        sandbox.files.upload(project, "/home/user")
        yield sandbox


@pytest.fixture
def page() -> Iterator[Page]:
    """A page of a browser."""
    if shutil.which("chromium") is None:
        skip("sdk-browser", "chromium is not installed")
        pytest.skip("chromium is not installed")
    page = Page()
    try:
        yield page
    finally:
        page.close()
