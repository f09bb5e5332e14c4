"""The demo, in each language, as a browser sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import atoll

from browser import Page
from serving import DEADLINE_SECONDS, Server, skip

SDK = Path(__file__).parents[1]

COMMANDS = {
    "python": [sys.executable, str(SDK / "python/examples/goose.py")],
    "typescript": ["node", str(SDK / "typescript/build/examples/goose.js")],
}
"""Each prints the address of the preview, waits for a line, and changes the greeting."""


@pytest.mark.parametrize("language", COMMANDS)
def test_a_page_is_changed_while_it_is_open(server: Server, sandbox: atoll.Sandbox, page: Page, language: str) -> None:
    if not Path(COMMANDS[language][-1]).exists():
        skip("sdk-typescript", "its example is not built")
        pytest.skip("not built: npm run build in sdk/typescript")
    environment = {"PATH": os.environ["PATH"], "ATOLL_HOST": server.host}
    demo = subprocess.Popen(
        COMMANDS[language], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with demo:
        assert demo.stdin is not None and demo.stdout is not None
        url = demo.stdout.readline().strip()
        token = url.split(".")[0].rsplit("-", 1)[1]
        own = {"Atoll-Preview-Token": token, "X-API-Key": server.key}
        page.ask("Network.setExtraHTTPHeaders", headers=own)
        for name in ("__atoll_session", "page"):
            page.ask("Network.setCookie", name=name, value="cookie", url=url)
        page.ask("Page.navigate", url=url)
        page.wait_for("document.querySelector('h1')?.textContent === 'Hello'")
        page.wait_for_event("the socket of the page", is_connected)
        page.evaluate("window.marker = 'kept'")
        loads = page.count("Page.loadEventFired")
        demo.communicate("\n", timeout=DEADLINE_SECONDS)
        assert demo.returncode == 0
        page.wait_for("document.querySelector('h1').textContent === 'Honk'")
        assert page.evaluate("window.marker") == "kept"
        assert page.count("Page.loadEventFired") == loads == 1
    assert_sent(page, token, server.key)
    judge(sandbox, server, token)
    # What a page keeps does not outlast a load, else the marker would show nothing.
    page.evaluate("location.reload()")
    page.wait_for("window.marker === undefined && document.querySelector('h1')?.textContent === 'Honk'")


def is_connected(event: dict[str, Any]) -> bool:
    """Whether Vite says that it will hear of changes."""
    return event["method"] == "Runtime.consoleAPICalled" and "[vite] connected." in json.dumps(event["params"]["args"])


def assert_sent(page: Page, *values: str) -> None:
    """The browser did send what is then looked for in vain."""
    sent = [one["params"]["headers"] for one in page.events if one["method"] == "Network.requestWillBeSentExtraInfo"]
    text = [json.dumps(headers) for headers in sent]
    for value in ("__atoll_session=cookie", '"Atoll-Preview-Token"', *values):
        assert any(value in one for one in text), f"{value} was not sent: {text}"


def judge(sandbox: atoll.Sandbox, server: Server, token: str) -> None:
    """What the dev server saw: the page's own cookie, and nothing that is between browser and preview."""
    seen = [json.loads(line) for line in sandbox.files.read_text("/tmp/headers.log").splitlines()]
    assert any(headers.get("upgrade") == "websocket" for _, headers in seen)
    assert any(url == "/main.js" for url, _ in seen)
    for _, headers in seen:
        assert headers["cookie"] == "page=cookie"
        assert "atoll-preview-token" not in headers
        assert server.key not in json.dumps(headers)
        # By its name alone, which the page itself has.
        named = {name for name, value in headers.items() if token in value}
        assert named <= {"host", "x-forwarded-host", "forwarded", "origin", "referer"}, named
