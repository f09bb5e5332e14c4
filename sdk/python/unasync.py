"""Makes `src/atoll/_sync` of `src/atoll/_async`; `--check` only says whether it is up to date."""

from __future__ import annotations

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parent / "src/atoll/_async"
TARGET = SOURCE.parent / "_sync"
# What differs on purpose is written by hand.
BY_HAND = "io.py"

WORDS = [
    (r'"""The asynchronous SDK.*"""', '"""The synchronous SDK, made of `_async` by `unasync.py`."""'),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\ba(close|read|iter_raw)\b", r"\1"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\bAsync(Iterator|Iterable|HTTPTransport)\b", r"\1"),
    (r"\bAsyncClient\b", "Client"),
    (r"\bAsync([A-Z][a-z]+)\b", r"\1"),
]


def translate(text: str) -> str:
    """The synchronous form of a file."""
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    return text


def stale() -> list[Path]:
    """Files that are not what they would be if they were made now."""
    files = {file.name: translate(file.read_text()) for file in SOURCE.glob("*.py") if file.name != BY_HAND}
    extra = [file for file in TARGET.glob("*.py") if file.name not in files and file.name != BY_HAND]
    return extra + [TARGET / name for name, text in files.items() if read(TARGET / name) != text]


def read(file: Path) -> str | None:
    """What is in a file, if it is there."""
    return file.read_text() if file.exists() else None


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit("\n".join(f"{file} is stale: run unasync.py" for file in stale()) or 0)
    for file in stale():
        source = SOURCE / file.name
        if source.exists():
            file.write_text(translate(source.read_text()))
        else:
            file.unlink()
