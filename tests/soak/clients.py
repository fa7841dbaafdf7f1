"""Clients of all kinds: they read to the end, leave early, read slowly or send invalid requests."""

import asyncio
import json
import re
import socket
from collections import Counter
from random import Random

from tests.support.chat import TOOLS, ask
from tests.support.gateway import KEY

KINDS = [
    *["reads"] * 10, *["leaves"] * 4, "leaves before the answer", *["reads slowly"] * 2,
    "breaks off its request", "sends nonsense", "sends invalid JSON", "has no key",
]  # fmt: skip
_PATIENCE = 60.0
_DEFECT = b"x-athena-error: internal_error"
_REQUEST_ID = re.compile(rb"\r\nrequest-id: (\S+)\r\n", re.IGNORECASE)


class Clients:
    """Concurrent clients that send one request after another; the results are counted."""

    def __init__(self, port: int, random: Random, *, prefix: str) -> None:
        self._port, self._random, self._prefix = port, random, prefix
        self._number = 0
        self.seen: Counter[str] = Counter()
        self.request_ids: list[str] = []
        """Requests whose answer had started when the client last looked."""

    async def run(self, count: int, seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(self._ask_until(end))

    async def _ask_until(self, end: float) -> None:
        loop = asyncio.get_running_loop()
        # Clients do not start all at once.
        await asyncio.sleep(self._random.uniform(0, min(5.0, (end - loop.time()) / 4)))
        while loop.time() < end:
            kind = self._random.choice(KINDS)
            try:
                async with asyncio.timeout(_PATIENCE):
                    seen = await self._ask(kind)
            except TimeoutError:
                seen = f"{kind}: no end"
            except OSError as error:
                seen = f"{kind}: {type(error).__name__}"
            self.seen[seen] += 1
            await asyncio.sleep(self._random.uniform(0.05, 0.5))

    async def _ask(self, kind: str) -> str:
        random = self._random
        reader, writer = await _connect(self._port, slow=kind == "reads slowly")
        try:
            request = self._request(kind)
            if kind == "breaks off its request":
                request = request[: random.randrange(1, len(request))]
            writer.write(request)
            await writer.drain()
            match kind:
                case "leaves" | "breaks off its request":
                    received = await _read_for(reader, random.uniform(0, 3))
                case "leaves before the answer":
                    received = await _read_for(reader, random.uniform(0, 0.1))
                case "reads slowly":
                    received = await _read_slowly(reader, random.uniform(1, 6))
                case _:
                    received = await _read_all(reader)
        finally:
            if random.random() < 0.3:
                writer.transport.abort()
            writer.close()
        if match := _REQUEST_ID.search(received):
            if kind in ("reads", "leaves", "leaves before the answer", "reads slowly"):
                self.request_ids.append(match[1].decode())
        if _DEFECT in received.lower():
            return f"{kind}: a defect"
        return f"{kind}: {received[9:12].decode('latin-1') or 'nothing'}"

    def _request(self, kind: str) -> bytes:
        random = self._random
        if kind == "sends nonsense":
            return random.choice([b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", random.randbytes(200)])
        self._number += 1
        family = random.choice(["moonshotai/kimi-k2", "test/model", "claude-x", "refused"])
        model = f"{family}-{self._prefix}-{self._number}"
        path, body = "/v1/messages", ask(model, stream=random.random() < 0.8, tools=TOOLS)
        if random.random() < 0.4:
            path = "/v1/chat/completions"
            del body["tools"]
        body["messages"][0]["content"] = "tide " * random.choice([1, 100, 10_000])
        data = json.dumps(body).encode()
        if kind == "sends invalid JSON":
            data = data[: random.randrange(1, len(data))]
        key = "sk-athena-unknown-key" if kind == "has no key" else KEY
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\nconnection: close\r\n"
            f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        )
        return head.encode() + data


async def _connect(port: int, *, slow: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    connection = socket.socket()
    connection.setblocking(False)
    if slow:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=connection, limit=4096 if slow else 65536)


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    received = b""
    while part := await reader.read(65536):
        received = received or part
    return received


async def _read_for(reader: asyncio.StreamReader, seconds: float) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            head = await reader.read(4096)
            while await reader.read(65536):
                pass
    except TimeoutError:
        return b""
    return head


async def _read_slowly(reader: asyncio.StreamReader, seconds: float) -> bytes:
    end, head = asyncio.get_running_loop().time() + seconds, b""
    while asyncio.get_running_loop().time() < end:
        try:
            part = await asyncio.wait_for(reader.read(256), 0.5)
        except TimeoutError:
            continue
        if not part:
            break
        head = head or part
        await asyncio.sleep(0.1)
    return head
