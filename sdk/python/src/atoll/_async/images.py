"""The images of a server."""

from __future__ import annotations

import json
from collections.abc import Callable

from .. import errors
from .._wire import body, decode, segment
from ..images import Image, ImageProgress, Pruned
from .connection import AsyncConnection


class AsyncImages:
    """The images that sandboxes of a server are made of. Each is named by a name, or by its digest or the begin of it."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> tuple[Image, ...]:
        """All images, by their digests."""
        found = (await self._connection.request("GET", "/v1/images")).json()["images"]
        return tuple(decode(Image, one) for one in found)

    async def get(self, image: str) -> Image:
        """The image of this name or digest."""
        return decode(Image, (await self._connection.request("GET", f"/v1/images/{segment(image)}")).json())

    async def pull(self, image: str, *, on_progress: Callable[[ImageProgress], object] | None = None) -> Image:
        """Pulls an image, as `python:3.12-slim`, or imports one of the server's machine, as `oci:/PATH`.

        It returns when the image is there. `on_progress` is called with how far it is.
        """
        events = self._connection.events("/v1/images", method="POST", body={"image": image})
        async for event in events:
            if event.kind == "progress" and on_progress is not None:
                on_progress(decode(ImageProgress, json.loads(event.data)))
            elif event.kind == "image":
                return decode(Image, json.loads(event.data))
            elif event.kind == "error":
                raise errors.from_wire(json.loads(event.data)["error"])
        raise AssertionError("events do not end by themselves")

    async def delete(self, image: str) -> None:
        """Removes a name, and the image with its last one; by a digest the image with all its names."""
        await self._connection.request("DELETE", f"/v1/images/{segment(image)}")

    async def prune(self, *, all: bool | None = None) -> Pruned:
        """Removes images without a name, or with `all` those that no sandbox and no snapshot was made of."""
        return decode(Pruned, (await self._connection.request("POST", "/v1/images/prune", body=body(all=all))).json())
