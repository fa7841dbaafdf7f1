"""A byte pass-through on uvloop: the minimum cost of a Python process between two sockets.

    python -m bench.passthrough PORT UPSTREAM_PORT

It parses nothing, and opens one upstream connection per client. No gateway can be cheaper, so costs
are given as multiples of it.
"""

import asyncio
import sys
from typing import cast

import uvloop

LOOPBACK = "127.0.0.1"


class Upstream(asyncio.Protocol):
    """The connection to the upstream, for one client."""

    def __init__(self, client: asyncio.Transport) -> None:
        self._client = client

    def data_received(self, data: bytes) -> None:
        self._client.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.close()


class Client(asyncio.Protocol):
    """A client's connection; its data is kept until the upstream is connected."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._upstream: asyncio.Transport | None = None
        self._dialing: asyncio.Task[None] | None = None
        self._pending: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        client = cast(asyncio.Transport, transport)
        self._dialing = asyncio.get_running_loop().create_task(self._dial(client))

    async def _dial(self, client: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        upstream, _ = await loop.create_connection(
            lambda: Upstream(client), LOOPBACK, self._upstream_port
        )
        upstream.writelines(self._pending)
        self._pending.clear()
        self._upstream = upstream

    def data_received(self, data: bytes) -> None:
        if self._upstream:
            self._upstream.write(data)
        else:
            self._pending.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._upstream:
            self._upstream.close()
        elif self._dialing:
            self._dialing.cancel()


async def serve(port: int, upstream_port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Client(upstream_port), LOOPBACK, port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
