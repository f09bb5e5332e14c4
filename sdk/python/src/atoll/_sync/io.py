"""What differs between the synchronous SDK and the other: waiting, and work that blocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TypeVar

T = TypeVar("T")

sleep = time.sleep

Content = str | bytes | IO[bytes] | Iterable[bytes]
"""What a file is written from."""

PIECE_BYTES = 256 << 10


def block(work: Callable[[], T]) -> T:
    """Does what blocks."""
    return work()


def pieces(content: Content) -> Iterator[bytes]:
    """Gives content piece by piece."""
    if isinstance(content, str):
        yield content.encode()
    elif isinstance(content, bytes):
        yield content
    elif hasattr(content, "read"):
        while piece := content.read(PIECE_BYTES):
            yield piece
    else:
        yield from content
