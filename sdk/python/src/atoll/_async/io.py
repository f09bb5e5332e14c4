"""What differs between the asynchronous SDK and the other: waiting, and work that blocks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import IO, TypeVar

T = TypeVar("T")

sleep = asyncio.sleep

Content = str | bytes | IO[bytes] | Iterable[bytes] | AsyncIterable[bytes]
"""What a file is written from."""

PIECE_BYTES = 256 << 10


async def block(work: Callable[[], T]) -> T:
    """Does what blocks where it holds nobody up."""
    return await asyncio.to_thread(work)


async def pieces(content: Content) -> AsyncIterator[bytes]:
    """Gives content piece by piece."""
    if isinstance(content, AsyncIterable):
        async for piece in content:
            yield piece
        return
    source = iterate(content)
    while True:
        found = await asyncio.to_thread(next, source, None)
        if found is None:
            return
        yield found


def iterate(content: str | bytes | IO[bytes] | Iterable[bytes]) -> Iterator[bytes]:
    """The pieces of content that is not asynchronous."""
    if isinstance(content, str):
        return iter([content.encode()])
    if isinstance(content, bytes):
        return iter([content])
    if hasattr(content, "read"):
        file = content
        return iter(lambda: file.read(PIECE_BYTES), b"")
    return iter(content)
