"""Runs the whole gateway inside this process, without sockets: every run does the same work.

The application, its database and its threads are real; connections of the event loop to upstreams
are scripted. A piece of an answer arrives only when the loop is idle, so every piece is one read,
and the work does not depend on the speed of the machine. uvicorn and sockets are not included.
"""

import asyncio
import logging
import os
import re
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

from bench.bodies import body
from bench.corpus import NATIVE_CALLS, argument_answer, pieces, running_text, text_answer
from bench.scenarios import SCENARIOS
from bench.servers import CLIENT_KEY, ROOT

Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]
Ask = Callable[[str], Awaitable[bytes]]
"""Sends the request of a scenario, by letter; returns the body of the answer."""

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
BULK = 8192
_MARKER = re.compile(rb"BENCH-SCENARIO:([A-H])")


def _chunked(parts: list[bytes]) -> list[bytes]:
    coded = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
    return [HEAD + coded[0], *coded[1:], b"0\r\n\r\n"]


def _in_bulk(events: list[bytes]) -> list[bytes]:
    data = b"".join(events)
    return [b"".join(_chunked([data[at : at + BULK] for at in range(0, len(data), BULK)]))]


def _pieces_of_answers() -> dict[str, list[bytes]]:
    """The data of each read from the upstream, by letter."""
    text = text_answer("openai", running_text(200))
    kimi = pieces("I will read the file now. " + NATIVE_CALLS["kimi"], 7)
    return {
        "A": _in_bulk(text_answer("openai", running_text(126))),
        "B": _in_bulk(text),
        "C": _chunked(text),
        "E": _in_bulk(text_answer("openai", kimi)),
        "F": _in_bulk(argument_answer("openai", 4000)),
        "G": _in_bulk(text_answer("openai", running_text(3))),
    }


class ScriptedTransport(asyncio.Transport):
    """A connection to an upstream that answers each request by its marker."""

    def __init__(self, loop: "ScriptedLoop", protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._loop, self._protocol = loop, protocol
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if marker := _MARKER.search(data):
            for piece in self._loop.answers[marker[1].decode()]:
                self._loop.pieces.append((self, piece))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def deliver(self, piece: bytes) -> None:
        if not self._is_closing:
            self._protocol.data_received(piece)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Does nothing: data only arrives when the loop is idle."""

    resume_reading = pause_reading

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close


class ScriptedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self.answers = _pieces_of_answers()
        self.pieces: deque[tuple[ScriptedTransport, bytes]] = deque()

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], *_: Any, **__: Any
    ) -> tuple[ScriptedTransport, asyncio.Protocol]:
        protocol = protocol_factory()
        transport = ScriptedTransport(self, protocol)
        protocol.connection_made(transport)
        return transport, protocol

    def _run_once(self) -> None:
        while self.pieces and not self._ready:  # type: ignore[attr-defined]
            transport, piece = self.pieces.popleft()
            transport.deliver(piece)
        super()._run_once()  # type: ignore[misc]


@contextmanager
def configured(**environment: str) -> Iterator[None]:
    """Configure Django with an empty data directory and the initial rows of a gateway."""
    with tempfile.TemporaryDirectory(prefix="athena-bench-") as data:
        for name in [name for name in os.environ if name.startswith(("ATHENA_", "OPENROUTER_"))]:
            del os.environ[name]
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "athena_site.settings",
            "ATHENA_DATA_DIR": data,
            "ATHENA_CLIENT_KEY": CLIENT_KEY,
            "ATHENA_LOG_FORMAT": "json",
            "ATHENA_ALLOW_PRIVATE_UPSTREAMS": "all",
            "DATABASE_URL": f"sqlite:///{data}/athena.sqlite3",
            "OPENROUTER_API_KEY": "sk-or-bench",
            "OPENROUTER_BASE_URL": "http://127.0.0.1:9/v1",
            **environment,
        }
        os.chdir(ROOT)
        import django

        django.setup()
        from django.core.management import call_command

        from proxy.configuration.bootstrap import bootstrap

        call_command("migrate", verbosity=0, interactive=False)
        bootstrap()
        with _silent():
            yield


@contextmanager
def _silent() -> Iterator[None]:
    """Write the log to the null device."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        for handler in logging.getLogger("athena").handlers:
            handler.flush()  # a thread may be writing
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _scope(size: int, state: Mapping[str, Any]) -> dict[str, Any]:
    headers = {
        "host": "127.0.0.1:8000",
        "content-type": "application/json",
        "content-length": str(size),
        "x-api-key": CLIENT_KEY,
        "anthropic-version": "2023-06-01",
        "user-agent": "claude-cli/2.0.0 (external, cli)",
    }
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/messages",
        "raw_path": b"/v1/messages",
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8000),
        "state": dict(state),
    }


class _DirectWriter:
    """As the server gives one to every request; its client takes all."""

    is_open = True

    def __init__(self, received: list[Mapping[str, Any]]) -> None:
        self._received = received

    def write(self, part: bytes) -> None:
        self._received.append({"body": part})


class Refused(Exception):
    """The gateway did not answer with status 200."""


async def _ask(application: Application, request: bytes, state: Mapping[str, Any]) -> bytes:
    waiting = deque([{"type": "http.request", "body": request, "more_body": False}])
    received: list[Mapping[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        if not waiting:
            await asyncio.get_running_loop().create_future()
        return waiting.popleft()

    async def send(message: Mapping[str, Any]) -> None:
        received.append(message)

    scope = _scope(len(request), {**state, "direct_writer": _DirectWriter(received)})
    await application(scope, receive, send)
    answer = b"".join(message.get("body", b"") for message in received)
    if received[0]["status"] != 200:
        raise Refused(f"status {received[0]['status']}: {answer[:300]!r}")
    return answer


@asynccontextmanager
async def gateway() -> AsyncIterator[Ask]:
    """Start and stop the application; needs `configured` and a ScriptedLoop."""
    from athena_site.asgi import application

    bodies = {
        letter: body(letter, stream=scenario.streamed) for letter, scenario in SCENARIOS.items()
    }
    ended, stopped = asyncio.Event(), asyncio.Event()
    started = asyncio.Event()
    messages = deque(["lifespan.startup"])

    async def receive() -> dict[str, Any]:
        if not messages:
            await ended.wait()
            return {"type": "lifespan.shutdown"}
        return {"type": messages.popleft()}

    async def send(message: Mapping[str, Any]) -> None:
        (started if message["type"] == "lifespan.startup.complete" else stopped).set()

    state: dict[str, Any] = {}  # set by the application, and given to each request
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": state}
    lifespan = asyncio.create_task(cast(Any, application(scope, receive, send)))
    lifespan.add_done_callback(lambda _: started.set())
    await started.wait()
    if lifespan.done():
        await lifespan  # raises the error of its start
    try:
        yield lambda letter: _ask(application, bodies[letter], state)
    finally:
        ended.set()
        await lifespan


def run(main: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=ScriptedLoop) as runner:
        runner.run(cast(Any, main()))
