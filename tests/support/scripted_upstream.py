"""An upstream over real sockets that sends exactly the bytes of a script.

The model of a request selects the script, so that tests can share one server. Every request is
recorded, with the time at which its client closed the connection. With a context it speaks TLS;
`refused`, `blackhole` and `syns` stand for upstreams that cannot be reached.
"""

import asyncio
import ctypes
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
    """Send the same bytes repeatedly until the client closes the connection."""

    data: bytes
    every: float = 0.05


@dataclass(frozen=True)
class Hold:
    """Continue when the test sets the event, or when the client closes the connection."""

    event: threading.Event = field(default_factory=threading.Event)


class Reset:
    """Close the connection with a RST."""


class Close:
    """Close the connection with a FIN, even in the middle of an answer."""


Step = bytes | Pause | Drip | Hold | type[Reset] | type[Close]


@dataclass
class Recorded:
    path: str
    headers: dict[str, str]
    body: bytes
    peer: int
    """Source port of the request: equal for requests on one connection."""
    closed_at: float | None = None
    """Time at which the client closed the connection during the script."""

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
    """Return an HTTP answer whose parts are sent as one HTTP chunk and one write each."""
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
        assert self._started.wait(60)

    @property
    def url(self) -> str:
        return f"http{'s' if self._context else ''}://127.0.0.1:{self.port}/v1"

    def script(self, model: str, *answers: list[Step]) -> Script:
        """Answer the requests for a model with these answers in turn; the last one repeats.

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
        # The lower-case values are for the lookup; tests compare the values that were sent.
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
                elif isinstance(step, Hold):
                    while not step.event.is_set() and recorded.closed_at is None:
                        await asyncio.sleep(0.02)
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
        """Record when the client closes; it sends nothing while it waits for an answer."""
        # After a failed write the reader has an exception and never reaches its end.
        while not reader.at_eof() and reader.exception() is None:
            await asyncio.sleep(0.02)
        recorded.closed_at = time.monotonic()


@contextmanager
def refused() -> Iterator[int]:
    """Reserve a port that refuses connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextmanager
def blackhole() -> Iterator[int]:
    """Reserve a port that neither accepts nor refuses connections: its queue stays full."""
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


_SO_ATTACH_FILTER = 26  # of Linux; Python has no name for it


@contextmanager
def syns(port: int) -> Iterator[Callable[[], int] | None]:
    """Count the attempts to connect to a port; None without permission for raw sockets."""
    try:
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
    except PermissionError:
        yield None
        return
    seen: set[bytes] = set()  # source port and sequence number: a packet may be sent again

    def count() -> int:
        with suppress(BlockingIOError):
            while packet := raw.recv(65536):
                tcp = packet[(packet[0] & 15) * 4 :]
                if tcp[2:4] == port.to_bytes(2, "big") and tcp[13] & 0x12 == 0x02:
                    seen.add(tcp[0:2] + tcp[4:8])
        return len(seen)

    with raw:
        raw.setblocking(False)
        _receive_only_syns(raw, port)
        yield count


def _receive_only_syns(raw: socket.socket, port: int) -> None:
    """Let the kernel drop all other packets: a full buffer would lose those that count."""
    program = struct.pack(
        "=" + 8 * "HBBI",
        *(0xB1, 0, 0, 0),  # X = length of the IP header
        *(0x48, 0, 0, 2),  # destination port
        *(0x15, 0, 4, port),
        *(0x50, 0, 0, 13),  # flags
        *(0x54, 0, 0, 0x12),  # of which SYN and ACK
        *(0x15, 0, 1, 0x02),  # SYN alone
        *(0x06, 0, 0, 65536),  # accept
        *(0x06, 0, 0, 0),  # drop
    )
    buffer = ctypes.create_string_buffer(program)
    pointer = struct.pack("HP", 8, ctypes.addressof(buffer))
    raw.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, pointer)


@contextmanager
def plaintext() -> Iterator[int]:
    """Serve plain HTTP on a port, whatever arrives."""
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
