"""A scripted upstream over real sockets: it sends what a test tells it to, byte for byte.

A script is chosen by the model that the request names, so that tests share one server. Every
request is recorded, with the moment at which its connection was closed by the peer.
"""

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Pause:
    seconds: float


class Reset:
    """Close the connection with a RST."""


class Close:
    """Close the connection with a FIN, whatever was promised."""


Step = bytes | Pause | type[Reset] | type[Close]


@dataclass
class Recorded:
    path: str
    headers: dict[str, str]
    body: bytes
    peer: int
    """The port that the request came from: the same for requests on one connection."""
    closed_at: float | None = None
    """When the peer closed the connection while the script was being played."""

    @property
    def json(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.body)
        return body


@dataclass
class Script:
    answers: list[list[Step]]
    requests: list[Recorded] = field(default_factory=list)

    @property
    def last(self) -> Recorded:
        return self.requests[-1]


def reply(
    *parts: Step,
    status: int = 200,
    content_type: str = "text/event-stream",
    headers: Sequence[str] = (),
    ends: bool = True,
) -> list[Step]:
    """An HTTP answer whose body has these parts, each an HTTP chunk and a write of its own."""
    lines = [
        f"HTTP/1.1 {status} Status",
        f"content-type: {content_type}",
        "transfer-encoding: chunked",
        *headers,
    ]
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    steps: list[Step] = [head]
    for part in parts:
        steps.append(b"%x\r\n%b\r\n" % (len(part), part) if isinstance(part, bytes) else part)
    return [*steps, b"0\r\n\r\n"] if ends else steps


def whole(body: object, status: int = 200, headers: Sequence[str] = ()) -> list[Step]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    content_type = "text/html" if data.startswith(b"<") else "application/json"
    return reply(data, status=status, content_type=content_type, headers=headers)


class ScriptedUpstream:
    def __init__(self) -> None:
        self._scripts: dict[str, Script] = {}
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self.port = 0
        threading.Thread(target=self._run, daemon=True).start()
        self._started.wait(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def script(self, model: str, *answers: list[Step]) -> Script:
        """Play these answers, one for each request for the model; the last one again and again.

        For requests without a body, `model` is their path.
        """
        self._scripts[model] = script = Script(list(answers))
        return script

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**26)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        # Header values were lowered for the look-up only; tests compare what was really sent.
        sent = {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in head[1:] if line}
        recorded = Recorded(head[0].split(" ")[1], sent, body, writer.get_extra_info("peername")[1])
        script = self._scripts[recorded.json["model"] if body else recorded.path]
        script.requests.append(recorded)
        steps = script.answers[min(len(script.requests), len(script.answers)) - 1]
        gone = asyncio.create_task(self._watch(reader, recorded))
        try:
            for step in steps:
                if isinstance(step, bytes):
                    writer.write(step)
                    await writer.drain()
                elif isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                else:
                    if step is Reset:
                        linger = struct.pack("ii", 1, 0)
                        transport_socket = writer.get_extra_info("socket")
                        transport_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    return False
        finally:
            gone.cancel()
        return recorded.closed_at is None

    async def _watch(self, reader: asyncio.StreamReader, recorded: Recorded) -> None:
        """Note when the peer closes; it sends nothing while it waits for an answer."""
        while not reader.at_eof():
            await asyncio.sleep(0.02)
        recorded.closed_at = time.monotonic()
