"""A small TCP load balancer in front of several nodes.

Connections go to the nodes in turn; a node that refuses one is skipped. Bytes are copied, not
inspected.
"""

import asyncio
import threading
from collections.abc import Sequence
from itertools import count


class Balancer:
    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._turns = count()
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self.port = 0
        threading.Thread(target=self._run, daemon=True).start()
        assert self._started.wait(60)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        turn = next(self._turns)
        for offset in range(len(self._ports)):
            port = self._ports[(turn + offset) % len(self._ports)]
            try:
                theirs, ours = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue
            await asyncio.gather(_copy(reader, ours), _copy(theirs, writer))
            return
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # one side has left: close the other
    finally:
        writer.close()
