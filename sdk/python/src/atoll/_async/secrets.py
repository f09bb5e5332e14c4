"""The secrets of a server. Nothing here keeps a value, and the server never gives one back."""

from __future__ import annotations

import base64

from .._wire import decode, segment
from ..network import Secret
from .connection import AsyncConnection


class AsyncSecrets:
    """The secrets of a server, which it keeps encrypted."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def set(self, name: str, value: str | bytes) -> Secret:
        """Sets a secret, whether there is one of that name or not."""
        if isinstance(value, str):
            request = {"value": value}
        else:
            request = {"value_base64": base64.b64encode(value).decode()}
        path = f"/v1/secrets/{segment(name)}"
        response = await self._connection.request("PUT", path, body=request, is_repeatable=True)
        return decode(Secret, response.json())

    async def list(self) -> tuple[Secret, ...]:
        """All secrets by name, without their values."""
        found = (await self._connection.request("GET", "/v1/secrets")).json()["secrets"]
        return tuple(decode(Secret, one) for one in found)

    async def delete(self, name: str) -> None:
        """Deletes the secret of this name: it is put into nothing any more."""
        await self._connection.request("DELETE", f"/v1/secrets/{segment(name)}")
