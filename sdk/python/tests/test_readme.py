"""What the README shows is run."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys

import pytest

from serving import ROOT, Server

SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "sdk/python/README.md").read_text(), re.DOTALL)
# Not of what is inside, but of the value.
DIGEST = hashlib.sha256(b"Bearer sk-the-real-value").hexdigest()
PRINTED = [
    r"42\n\n",
    r"http:\S+\n(Honk\n7\n\n){3}",
    rf"atoll_MODEL_KEY_\w+\n\n/v1/models {DIGEST}\n\nelsewhere.example.com not-allowed .*",
    r"exec.ask: git push \* \('git', 'push', 'origin', 'main'\)\n.*not on a Friday\n",
]


def here(snippet: str, port: int) -> str:
    """What the README says about a host of the internet, about the one that there is here."""
    snippet = snippet.replace("api.example.com", f"api.example.com:{port}")
    return snippet.replace("allow=[", f'allow=["127.0.0.1/32:{port}", ')


def test_there_are_as_many_snippets_as_outputs() -> None:
    assert len(SNIPPETS) == len(PRINTED)


@pytest.mark.parametrize(("snippet", "printed"), list(zip(SNIPPETS, PRINTED, strict=False)))
def test_snippet(server: Server, snippet: str, printed: str) -> None:
    environment = {**os.environ, "ATOLL_HOST": server.host, "MODEL_KEY": "sk-the-real-value"}
    command = [sys.executable, "-B", "-c", here(snippet, server.internet.port)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ran.stderr == ""
    assert re.fullmatch(printed, ran.stdout, re.DOTALL), ran.stdout
