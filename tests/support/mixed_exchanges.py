"""Random exchanges over one gateway, with an upstream that breaks HTTP in every way, and an oracle.

An exchange is a combination of both dialects, native or structured calls, streamed or whole, a
framing of HTTP/1.1, and a fault. Every exchange has a token of its own, which its request, its
answer and everything else that the upstream sends for it carry. The oracle knows what each client
must get: its own message or an error, one legal stream with exactly one end, and no other token.

    plan         what an exchange will be; depends only on the seed and its number
    upstream     sends the answer of a plan over real sockets, cut and delayed
    client       sends the request and reads the raw bytes of the answer
    check        the oracle
"""

import asyncio
import http.client
import io
import json
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

from tests.support import anthropic_frames as frames
from tests.support.chat import TOOLS, ask
from tests.support.client_views import View, payloads, view
from tests.support.faulty_upstreams import PATHS
from tests.support.gateway import KEY, Gateway
from tests.support.wire import calls, chunk, entry

_TOKEN = re.compile(rb"tok\d{8}")
_MODEL = re.compile(rb'"model": ?"([^"]+)"')
_LATE_SECONDS = 0.010
_PUNCTUAL_SECONDS = 0.025
"""Late data is not sent if the upstream itself is delayed: the gateway promises 50 ms."""
_PATIENCE = 60.0
_KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_tide:0"
    "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
)
_TRAILER = b"x-ratelimit-trailer"

HARMLESS = {"none": 40, "late": 22, "joined": 6, "closed after": 6, "half-closed after": 4}
"""Faults that must not change an answer, and their weights."""
HARMFUL = {
    "reset after": 3, "cut by a reset": 6, "cut by a close": 6, "cut cleanly": 12, "closed at once": 4,
    "reset at once": 2, "error": 4, "no content": 2, "early refusal": 2, "stall": 0.3,
    "closed late": 0.3, "client leaves": 5,
}  # fmt: skip
_SECOND_ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %(size)d\r\n\r\n%(body)b"
)
_LATE_DATA = (
    _SECOND_ANSWER,
    _SECOND_ANSWER[:-1] + b".30b",
    b"%(body)b",
    b"data: %(body)b\n\n",
    b"0\r\n\r\n",
    b"\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 408 %(body).9b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
)


@dataclass(frozen=True)
class Plan:
    number: int
    client: str
    upstream: str
    is_native: bool
    streams: bool
    calls_tool: bool
    framing: str
    fault: str
    is_repeated: bool
    """The fault happens again at a second attempt."""
    seed: str

    @property
    def token(self) -> str:
        return f"tok{self.number:08}"

    @property
    def model(self) -> str:
        kind = "kimi-k2" if self.is_native else "plain"
        return f"mix-{self.upstream}-{kind}-{self.token}"

    @property
    def random(self) -> Random:
        return Random(self.seed)

    @property
    def words(self) -> list[str]:
        random = self.random
        return [
            f"{self.token} ",
            *random.choices(["tide ", "harbor ", "é🌊 "], k=random.randint(1, 9)),
        ]

    @property
    def expected(self) -> View:
        made = (
            [{"name": "get_tide", "arguments": {"harbor": self.token}}] if self.calls_tool else []
        )
        stops = ("tool_use", "end_turn") if self.client == "anthropic" else ("tool_calls", "stop")
        return View("".join(self.words), calls=made, stop=stops[not made])


def plan(seed: int, number: int) -> Plan:
    random = Random(f"{seed}-{number}")
    weights = HARMLESS | HARMFUL
    (fault,) = random.choices([*weights], [*weights.values()])
    framings = ["length", "chunked", "trailers", "close"]
    if fault == "joined" or fault == "late":
        framings.remove("close")  # all data until the close is the body
    return Plan(
        number,
        client=random.choice([*PATHS]),
        upstream=random.choice([*PATHS]),
        is_native=random.random() < 0.4,
        streams=random.random() < 0.7,
        calls_tool=random.random() < 0.5,
        framing=random.choice(framings),
        fault=fault,
        is_repeated=random.random() < 0.5,
        seed=f"{seed}-{number}-answer",
    )


def answer_body(plan: Plan, *, streams: bool) -> bytes:
    """Return the body of an upstream's answer."""
    words, arguments = plan.words, json.dumps({"harbor": plan.token})
    is_structured = plan.calls_tool and not plan.is_native
    if plan.calls_tool and plan.is_native:
        words.append(_KIMI.format(arguments))
    if plan.upstream == "openai":
        finish, made = "stop", entry(0, f"call_{plan.number}", "get_tide", arguments)
        if is_structured:
            finish = "tool_calls"
        if streams:
            deltas = [{"content": word} for word in words]
            body = b"".join(
                map(chunk, [*deltas, *([calls(made | {"type": "function"})] * is_structured)])
            )
            return body + chunk({}, finish) + b"data: [DONE]\n\n"
        message: dict[str, Any] = {"role": "assistant", "content": "".join(words)}
        if is_structured:
            function = {"name": "get_tide", "arguments": arguments}
            message["tool_calls"] = [
                {"id": f"call_{plan.number}", "type": "function", "function": function}
            ]
        choice = {"index": 0, "message": message, "finish_reason": finish}
        usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
        fields = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
        return json.dumps({**fields, "choices": [choice], "usage": usage}).encode()
    stop = "tool_use" if is_structured else "end_turn"
    tool = frames.tool("get_tide", f"toolu_{plan.number}")
    if streams:
        blocks = [frames.block(0, frames.EMPTY, *map(frames.text, words))]
        if is_structured:
            blocks.append(frames.block(1, tool, frames.part(arguments)))
        stream: bytes = frames.message(*blocks, stop=stop)
        return stream
    content: list[Any] = [{"type": "text", "text": "".join(words)}]
    if is_structured:
        content.append(tool | {"input": json.loads(arguments)})
    usage = {"input_tokens": 5, "output_tokens": 5}
    fields = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    ending = {"stop_reason": stop, "stop_sequence": None, "usage": usage}
    return json.dumps({**fields, "content": content, **ending}).encode()


def answer_bytes(plan: Plan, random: Random, *, streams: bool) -> bytes:
    """Return an answer in the framing of its plan."""
    body = answer_body(plan, streams=streams)
    status, kind = b"200 OK", b"text/event-stream" if streams else b"application/json"
    match plan.fault:
        case "cut cleanly":
            # Most cuts are near the end, where an answer may look complete.
            least = 0 if random.random() < 0.3 else max(0, len(body) - 250)
            body = body[: random.randint(least, len(body) - 1)]
        case "error" | "early refusal":
            status = random.choice(
                [b"400 Bad", b"404 No", b"413 Big", b"429 Wait", b"500 Oh", b"503 Busy"]
            )
            error = {"type": "api_error", "message": plan.token, "code": None}
            body = json.dumps({"type": "error", "error": error}).encode()
            kind = b"application/json"
        case "no content":
            status = random.choice([b"204 No Content", b"304 Not Modified"])
    interim = random.choices(
        [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"],
        [8, 1, 1],
    )[0]
    head = interim + b"HTTP/1.1 %b\r\ncontent-type: %b\r\n" % (status, kind)
    match plan.framing:
        case "length":
            return head + b"content-length: %d\r\n\r\n%b" % (len(body), body)
        case "close":
            return head + random.choice([b"connection: close\r\n\r\n", b"\r\n"]) + body
    head += b"transfer-encoding: chunked\r\n"
    trailers = b""
    if plan.framing == "trailers":
        head += random.choice([b"", b"trailer: " + _TRAILER + b"\r\n"])
        trailers = b"%b: %b\r\nx-other: 1\r\n" % (_TRAILER, plan.token.encode())
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces(body, random)]
    return head + b"\r\n" + b"".join(chunks) + b"0\r\n" + trailers + b"\r\n"


def pieces(data: bytes, random: Random) -> list[bytes]:
    """Cut data at a few random places, often near its end."""
    size = len(data)
    places = {random.randrange(1, size) for _ in range(random.choice([0, 0, 1, 3, 9])) if size > 1}
    if random.random() < 0.3 and size > 30:
        places.add(size - random.randrange(1, 30))
    cuts = [0, *sorted(places), size]
    return [data[a:b] for a, b in pairwise(cuts)]


class MixedUpstream:
    """Answers each request as the plan of its number says, and counts arrivals."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.arrivals: Counter[int] = Counter()
        self.closed_at_once: set[int] = set()
        """Exchanges whose reused connection was closed at once."""
        self.late = 0
        """Data sent after the end of an answer."""
        self.reused = 0
        """Requests on a connection that had served another."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self.port = 0
        threading.Thread(target=self._run, daemon=True).start()
        assert self._started.wait(60)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        start = asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**20)
        self.port = self._loop.run_until_complete(start).sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        earlier = 0
        try:
            while await self._answer(reader, writer, earlier):
                earlier += 1
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, earlier: int
    ) -> bool:
        """Answer one request; returns whether the connection serves another."""
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = b""
        while not (match := _MODEL.search(body)):
            body += await reader.read(4096)
        number = int(match[1][-8:])
        plan_ = plan(self._seed, number)
        if plan_.fault != "early refusal":
            body += await reader.readexactly(size - len(body))
        self.arrivals[number] += 1
        self.reused += earlier > 0
        if self.arrivals[number] > 1 and not plan_.is_repeated:
            plan_ = _without_fault(plan_)
        random = Random(f"{plan_.seed}-{self.arrivals[number]}")
        if earlier and plan_.fault in ("closed at once", "reset at once"):
            self.closed_at_once.add(number)
        streams = re.search(rb'"stream": ?true', body) is not None
        if random.random() < 0.03:
            streams = not streams
        keeps = await self._send(plan_, random, writer, streams=streams)
        if plan_.fault == "early refusal" and keeps:
            await asyncio.sleep(random.uniform(0, 0.02))
            await reader.readexactly(size - len(body))
        return keeps

    async def _send(
        self, plan: Plan, random: Random, writer: asyncio.StreamWriter, *, streams: bool
    ) -> bool:
        data, fault = answer_bytes(plan, random, streams=streams), plan.fault
        match fault:
            case "closed at once":
                return False
            case "reset at once":
                return _reset(writer)
            case "closed late":
                await asyncio.sleep(0.7)
                return False
            case "cut by a reset" | "cut by a close" | "stall":
                data = data[: random.randrange(1, len(data))]
            case "joined":
                data += _late_data(plan, random)
        for piece in pieces(data, random):
            writer.write(piece)
            await writer.drain()
            if random.random() < 0.3:
                await asyncio.sleep(random.choice([0, 0.001, 0.003]))
        ended_at = time.monotonic()
        match fault:
            case "stall":
                await asyncio.sleep(3)
                return False
            case "cut by a reset" | "reset after":
                return _reset(writer)
            case "cut by a close":
                return False
            case "closed after":
                await asyncio.sleep(random.choice([0, 0.005, 0.05, 0.07]))
                return False
            case "half-closed after":
                writer.write_eof()
                await asyncio.sleep(0.02)
                return False
            case "late":
                self._send_late(plan, random, writer, ended_at)
        return plan.framing != "close"

    def _send_late(
        self, plan: Plan, random: Random, writer: asyncio.StreamWriter, ended_at: float
    ) -> None:
        """Send data after the end of an answer, beside whatever the connection does next."""

        async def send() -> None:
            await asyncio.sleep(random.uniform(0, _LATE_SECONDS))
            if time.monotonic() - ended_at > _PUNCTUAL_SECONDS:
                return
            with suppress(OSError, RuntimeError):  # a later answer may have closed the connection
                writer.write(_late_data(plan, random))
                self.late += 1

        task = asyncio.create_task(send())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _without_fault(plan_: Plan) -> Plan:
    return Plan(**{**vars(plan_), "fault": "none"})


def _late_data(plan_: Plan, random: Random) -> bytes:
    """Return data that no client may get: it has a token that no exchange has."""
    foreign = Plan(**{**vars(plan_), "number": plan_.number + 50_000_000, "fault": "none"})
    body = answer_body(foreign, streams=random.random() < 0.5)
    (form,) = random.choices(_LATE_DATA, [7, 1, 1, 1, 1, 1, 1, 1])
    return form % {b"size": len(body), b"body": body} if b"%" in form else form


def _reset(writer: asyncio.StreamWriter) -> bool:
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    return False


def request_bytes(plan: Plan) -> bytes:
    tools: Any = TOOLS
    if plan.client == "openai":
        function = {"name": "get_tide", "parameters": TOOLS[0]["input_schema"]}
        tools = [{"type": "function", "function": function}]
    padding = "tide " * (60_000 if plan.fault == "early refusal" else 1)
    body = json.dumps(
        ask(plan.model, plan.token + padding, stream=plan.streams, tools=tools)
    ).encode()
    return (
        f"POST {PATHS[plan.client]} HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\n"
        f"connection: close\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body


async def exchange(plan: Plan, port: int) -> bytes:
    """Return the raw bytes that the client receives."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = b""
    try:
        writer.write(request_bytes(plan))
        await writer.drain()
        leaves_after = plan.random.randrange(2000) if plan.fault == "client leaves" else None
        async with asyncio.timeout(_PATIENCE):
            while part := await reader.read(65536):
                received += part
                if leaves_after is not None and len(received) > leaves_after:
                    writer.transport.abort()
                    break
    finally:
        writer.close()
    return received


class _Socket(io.BytesIO):
    """The bytes of a connection, as http.client reads them."""

    def makefile(self, *_: Any) -> "_Socket":
        return self

    def close(self) -> None:
        """Stay open, so that the rest can be read."""


def problems(plan: Plan, raw: bytes) -> Iterator[str]:
    """The oracle: yield what is wrong with the bytes that a client received."""
    foreign = {token.decode() for token in _TOKEN.findall(raw)} - {plan.token}
    if foreign:
        yield f"data of another exchange: {sorted(foreign)}"
        return
    if plan.fault == "client leaves":
        return
    connection = _Socket(raw)
    response = http.client.HTTPResponse(connection)  # type: ignore[arg-type]
    try:
        response.begin()
        body = response.read()
    except http.client.HTTPException as error:
        yield f"the answer is not HTTP: {error!r}"
        return
    if connection.read():
        yield "data after the end of the answer"
    if response.headers[_TRAILER.decode()] is not None:
        yield "a trailer became a header"
    try:
        if response.status != 200:
            assert json.loads(body)["error"]["message"]
            seen = View(error="error")
        elif plan.streams:
            _check_end(body, plan.client)
            seen = view(body, plan.client)
        else:
            seen = _whole(json.loads(body), plan.client)
    except Exception as error:  # noqa: BLE001  whatever a client would stumble over
        yield f"not a legal message: {error!r}"
        return
    expected = plan.expected
    if seen.error:
        if not expected.text.startswith(seen.text):
            yield f"wrong text before the error: {seen.text!r}"
        if plan.fault in HARMLESS:
            yield f"an error without a fault: {response.status} {body[-400:]!r}"
    elif (seen.text, seen.calls, seen.stop) != (expected.text, expected.calls, expected.stop):
        yield f"wrong message: {seen}"


def _check_end(body: bytes, client: str) -> None:
    assert body.endswith(b"\n\n"), "the last event is not terminated"
    if client == "anthropic":
        names = [name for name, _ in payloads(body) if name != "ping"]
        ends = [name for name in names if name in ("error", "message_delta", "message_stop")]
        assert ends in (["message_delta", "message_stop"], ["error", "message_stop"]), ends
        assert names[-2:] == ends, names[-3:]
        if "error" not in names:
            starts, stops = names.count("content_block_start"), names.count("content_block_stop")
            assert starts == stops, "a block is open"
        return
    events = [event for _, event in payloads(body)]
    errors = sum("error" in event for event in events)
    finishes = [
        choice["finish_reason"]
        for event in events
        for choice in event.get("choices", ())
        if choice["finish_reason"]
    ]
    if errors:
        assert errors == 1
        assert "error" in events[-1], "events after the error"
        assert b"[DONE]" not in body, "[DONE] after an error"
        assert not finishes, "a finish reason and an error"
    else:
        assert len(finishes) == 1, f"{len(finishes)} finish reasons"
        assert body.count(b"data: [DONE]") == 1
        assert body.endswith(b"data: [DONE]\n\n"), "no [DONE]"


def _whole(message: dict[str, Any], client: str) -> View:
    seen = View()
    if client == "anthropic":
        assert message["type"] == "message"
        for block in message["content"]:
            if block["type"] == "text":
                seen.text += block["text"]
            else:
                seen.calls.append({"name": block["name"], "arguments": block["input"]})
        seen.stop = message["stop_reason"]
        return seen
    (choice,) = message["choices"]
    seen.text = choice["message"]["content"] or ""
    for call in choice["message"].get("tool_calls") or ():
        function = call["function"]
        arguments = json.loads(function["arguments"])
        seen.calls.append({"name": function["name"], "arguments": arguments})
    seen.stop = choice["finish_reason"]
    return seen


@dataclass
class MixedReport:
    seed: int
    count: int
    seconds: float = 0.0
    late: int = 0
    reused: int = 0
    failures: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        found = f"{len(self.failures)} wrong: {dict(self.kinds)}" if self.failures else "all right"
        lines = [
            f"{self.count} mixed exchanges with seed {self.seed} in {self.seconds:.0f} s: {found}",
            f"    {self.reused} requests on a used connection, {self.late} times late data",
            *(f"    {failure[:600]}" for failure in self.failures[:20]),
        ]
        return "\n".join(lines)


def configure(gateway: Gateway, port: int) -> None:
    gateway.edit(
        f"base = 'http://127.0.0.1:{port}/v1'\n"
        f"for dialect in {[*PATHS]!r}:\n"
        "    u = Upstream.objects.create(name='mix-' + dialect, dialect=dialect, base_url=base,"
        " first_byte_timeout=6, idle_timeout=6)\n"
        "    ModelRoute.objects.create(pattern='mix-' + dialect + '-*', upstream=u, priority=1)"
    )


def run_exchanges(gateway: Gateway, *, count: int, seed: int, concurrency: int = 24) -> MixedReport:
    """Run exchanges with these numbers over a running gateway, whose upstreams it adds."""
    report, upstream = MixedReport(seed, count), MixedUpstream(seed)
    configure(gateway, upstream.port)
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            plan_ = plan(seed, number)
            try:
                raw = await exchange(plan_, gateway.port)
                found = [*problems(plan_, raw)]
            except (OSError, TimeoutError) as error:
                found = [f"no answer: {error!r}"] if plan_.fault != "client leaves" else []
            most = 2 + (number in upstream.closed_at_once)
            if upstream.arrivals[number] > most:
                found.append(f"the request arrived {upstream.arrivals[number]} times")
            for problem in found:
                report.kinds[problem.split(":")[0]] += 1
                report.failures.append(f"{plan_}: {problem}")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(client())

    began = time.monotonic()
    asyncio.run(main())
    report.seconds = time.monotonic() - began
    report.late, report.reused = upstream.late, upstream.reused
    return report
