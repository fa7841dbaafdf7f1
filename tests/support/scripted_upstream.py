"""A scripted upstream over real sockets: it sends what a test tells it to, byte for byte.

A script is chosen by the model that the request names, so that tests share one server. Every
request is recorded, with the moment at which its connection was closed by the peer. With a context it
speaks TLS, as well or as badly as its certificate; `refused`, `blackhole` and `syns` are for upstreams
that are not there at all.
"""

import asyncio
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Drip:
    """The same bytes again and again, until the peer has closed the connection."""

    data: bytes
    every: float = 0.05


class Reset:
    """Close the connection with a RST."""


class Close:
    """Close the connection with a FIN, whatever was promised."""


Step = bytes | Pause | Drip | type[Reset] | type[Close]


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
    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._context = context
        self._scripts: dict[str, Script] = {}
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self.port = 0
        threading.Thread(target=self._run, daemon=True).start()
        self._started.wait(10)

    @property
    def url(self) -> str:
        return f"http{'s' if self._context else ''}://127.0.0.1:{self.port}/v1"

    def script(self, model: str, *answers: list[Step]) -> Script:
        """Play these answers, one for each request for the model; the last one again and again.

        For requests without a body, `model` is their path.
        """
        self._scripts[model] = script = Script(list(answers))
        return script

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**26, ssl=self._context)
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
                elif isinstance(step, Drip):
                    while recorded.closed_at is None:
                        writer.write(step.data)
                        await asyncio.sleep(step.every)
                else:
                    if step is Reset:
                        linger = struct.pack("ii", 1, 0)
                        transport_socket = writer.get_extra_info("socket")
                        transport_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    return False
        except OSError:  # while it was being written to
            recorded.closed_at = recorded.closed_at or time.monotonic()
            raise
        finally:
            gone.cancel()
        return recorded.closed_at is None

    async def _watch(self, reader: asyncio.StreamReader, recorded: Recorded) -> None:
        """Note when the peer closes; it sends nothing while it waits for an answer."""
        while not reader.at_eof():
            await asyncio.sleep(0.02)
        recorded.closed_at = time.monotonic()


@contextmanager
def refused() -> Iterator[int]:
    """A port at which nobody listens, and that nobody else can take meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextmanager
def blackhole() -> Iterator[int]:
    """A port at which a connection is neither taken nor refused: its queue is full for ever."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = listening.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            with suppress(BlockingIOError):
                one.connect(address)
        try:
            yield address[1]
        finally:
            for one in waiting:
                one.close()


_SO_RCVBUFFORCE = 33  # Linux's, for whoever may look at packets; Python has no name for it


@contextmanager
def syns(port: int) -> Iterator[Callable[[], int] | None]:
    """Counts the attempts to connect to a port; None where nobody may look at packets."""
    try:
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
    except PermissionError:
        yield None
        return
    seen: set[bytes] = set()  # by port and number, as a packet may be sent again

    def count() -> int:
        with suppress(BlockingIOError):
            while packet := raw.recv(65536):
                tcp = packet[(packet[0] & 15) * 4 :]
                if tcp[2:4] == port.to_bytes(2, "big") and tcp[13] & 0x12 == 0x02:
                    seen.add(tcp[0:2] + tcp[4:8])
        return len(seen)

    with raw:
        raw.setblocking(False)
        # All of loopback comes in here: more than the system's own limit, or packets are lost.
        raw.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 2**24)
        yield count


@contextmanager
def plaintext() -> Iterator[int]:
    """A port at which a server answers whatever comes, in plain HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(65536)
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
