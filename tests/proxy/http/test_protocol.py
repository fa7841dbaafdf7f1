"""HTTP/1.1 on the wire: ambiguous framing, floods, pipelining, slow and stalled clients."""

import contextlib
import json
import resource
import socket
import time
from pathlib import Path

import pytest

from tests.support.chat import TOOLS, ask, chunk, reply, says
from tests.support.gateway import KEY, Gateway
from tests.support.metrics import scrape, value
from tests.support.raw_client import (
    answer,
    ask_raw,
    closed_after,
    connect,
    has_server_closed,
    is_closed,
    post,
)
from tests.support.scripted_upstream import Pause
from tests.support.waiting import wait_for

LONG_BEFORE_THE_END = 15  # seconds; the upstreams of these tests are silent for 20
HEAD = b"POST /v1/messages HTTP/1.1\r\nhost: x\r\n"
PROBE = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"

SMUGGLED = {
    "length and chunks": HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": HEAD + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"content-length: 2\r\ncontent-length: 30\r\n\r\n{}",
    "one length twice": HEAD + b"content-length: 2\r\ncontent-length: 2\r\n\r\n{}",
    "a list of lengths": HEAD + b"content-length: 2, 2\r\n\r\n{}",
    "a space before the colon": HEAD + b"content-length : 2\r\n\r\n{}",
    "a negative length": HEAD + b"content-length: -2\r\n\r\n{}",
    "a length with a sign": HEAD + b"content-length: +2\r\n\r\n{}",
    "xchunked": HEAD + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked, then something": HEAD + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "two encodings": HEAD + b"transfer-encoding: chunked\r\ntransfer-encoding: x\r\n\r\n0\r\n\r\n",
    "a vertical tab": HEAD + b"transfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": HEAD.replace(b"1.1", b"1.0")
    + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "lines that end in LF": HEAD.replace(b"\r", b"") + b"content-length: 2\n\n{}",
    "one line that ends in LF": HEAD + b"a: b\ncontent-length: 2\r\n\r\n{}",
    "a bare CR": HEAD + b"a: b\rcontent-length: 2\r\n\r\n{}",
    "a folded line": HEAD + b"a: b\r\n content-length: 2\r\n\r\n{}",
    "a chunk of -1": HEAD + b"transfer-encoding: chunked\r\n\r\n-1\r\n\r\n",
    "a chunk of 0x2": HEAD + b"transfer-encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
    "a chunk of 2^72": HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"f" * 18 + b"\r\n\r\n",
    "a chunk without its end": HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}xx0\r\n\r\n",
    "a chunk's extension with LF": HEAD + b"transfer-encoding: chunked\r\n\r\n2;\n{}\r\n0\r\n\r\n",
    "a trailer": HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\na: b\r\n\r\n",
    "NUL in a value": HEAD + b"a: b\0c\r\ncontent-length: 2\r\n\r\n{}",
    "NUL in a name": HEAD + b"a\0: b\r\ncontent-length: 2\r\n\r\n{}",
    "no host": b"POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}",
    "two hosts": HEAD + b"host: y\r\ncontent-length: 2\r\n\r\n{}",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an unknown version": PROBE.replace(b"1.1", b"2.0"),
    "TLS": bytes.fromhex("160301020001fc0303"),
    "a space in the path": b"GET /v1/ models HTTP/1.1\r\nhost: x\r\n\r\n",
}


@pytest.mark.parametrize("data", SMUGGLED.values(), ids=SMUGGLED)
def test_ambiguous_framing_is_400_and_closes_the_connection(gateway, data):
    """A second request after it must never be answered."""
    seen = ask_raw(gateway.port, data + PROBE, patience=60)
    assert (seen.status, seen.code, seen.is_closed) == (400, "malformed_http", True)
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["x-athena-error-source"] == "client"
    assert (seen.json["type"], seen.json["error"]["type"]) == ("error", "invalid_request_error")
    assert seen.json["request_id"] == seen.headers["request-id"]
    assert b"status" not in seen.body


LARGE = {
    "a header of 70 KB": HEAD + b"a: " + b"x" * 70_000 + b"\r\n\r\n",
    "a header that never ends": HEAD + b"a: " + b"x" * 1_000_000,
    "101 headers": HEAD + b"".join(b"a%d: b\r\n" % n for n in range(100)) + b"\r\n",
    "a path of 70 KB": PROBE.replace(b"healthz", b"x" * 70_000),
}


@pytest.mark.parametrize("data", LARGE.values(), ids=LARGE)
def test_oversized_headers_are_431_and_close_the_connection(gateway, data):
    seen = ask_raw(gateway.port, data, patience=60)
    assert (seen.status, seen.code, seen.is_closed) == (431, "headers_too_large", True)
    assert seen.headers["x-should-retry"] == "false"


CHUNKED = post(b"", "transfer-encoding: chunked") + b"1\r\nx\r\n"
FLOODS = {
    "many trailers": (CHUNKED + b"0\r\n", b"a: bcdefgh\r\n" * 5000),
    "trailers for a probe": (
        CHUNKED.replace(b"/v1/messages", b"/healthz") + b"0\r\n",
        b"a: bcdefgh\r\n" * 5000,
    ),
    "one trailer without end": (CHUNKED + b"0\r\na: ", b"x" * 65536),
    "a trailer's name without end": (CHUNKED + b"0\r\n", b"x" * 65536),
    "a chunk's extension without end": (CHUNKED + b"1;", b"x" * 65536),
}


@pytest.mark.parametrize(("begin", "part"), FLOODS.values(), ids=FLOODS)
def test_a_flood_of_trailers_or_extensions_is_refused_and_uses_no_memory(gateway, begin, part):
    before = memory(gateway)
    with connect(gateway.port, begin) as connection:
        with contextlib.suppress(ConnectionError):
            for _ in range(500):  # 32 MB, of which trailers would make 300
                connection.sendall(part)
        grown = memory(gateway) - before
        with contextlib.suppress(ConnectionError):  # a client that keeps sending loses the answer
            assert answer(connection, patience=60).status in (400, 405, 431)
        assert is_closed(connection, 60)
    assert grown < 24 * 2**20


def test_a_trailer_never_becomes_a_header(gateway, upstream, model):
    script = upstream.script(model, says("Hi"))
    body = json.dumps(ask(model)).encode()
    chunks = b"%x\r\n%b\r\n0\r\n" % (len(body), body)
    for key, trailer in (("", f"x-api-key: {KEY}"), (KEY, "openai-organization: smuggled")):
        head = post(b"", "transfer-encoding: chunked", path="/v1/chat/completions", key=key)
        data = head + chunks + f"{trailer}\r\n\r\n".encode()
        seen = ask_raw(gateway.port, data + PROBE, patience=60)
        assert seen.status in ((401, 400) if not key else (400,))
        assert seen.is_closed
        assert b"status" not in seen.body
    assert not script.requests


def test_60_kilobytes_of_headers_are_accepted_and_refusals_are_counted(gateway):
    before = value(scrape(gateway.url), "athena_requests_total", status="431")
    large = PROBE.replace(b"\r\n\r\n", b"\r\na: " + b"x" * 60_000 + b"\r\n\r\n")
    assert ask_raw(gateway.port, large).status == 200
    ask_raw(gateway.port, LARGE["101 headers"])
    wait_for(lambda: value(scrape(gateway.url), "athena_requests_total", status="431") > before)


def test_an_upgrade_is_ignored_and_nothing_after_it_is_read(gateway):
    upgrade = PROBE.replace(b"\r\n\r\n", b"\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")
    seen = ask_raw(gateway.port, upgrade + PROBE, patience=60)
    assert (seen.status, seen.is_closed) == (200, True)


def test_an_upgrade_with_a_body_is_refused(gateway, upstream, model):
    script = upstream.script(model, says("Hi"))
    wanted = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABk")
    seen = ask_raw(gateway.port, post(ask(model), *wanted), patience=60)
    assert (seen.status, seen.is_closed) == (400, True)
    assert b"without Upgrade" in seen.body
    assert not script.requests


def test_pipelined_requests_are_answered_in_order(gateway, upstream, model):
    upstream.script(model, says("Hi"))
    with connect(gateway.port, post(ask(model)) + PROBE + post(ask(model))) as connection:
        received = b""
        while received.count(b"HTTP/1.1 200 OK") < 3:
            data = connection.recv(65536)
            assert data, received
            received += data


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "more", [PROBE, post(ask("test/next")), post(b"{" * 9, "content-length: 99")]
)
def test_a_disconnect_is_noticed_while_a_pipelined_request_waits(
    gateway, upstream, model, stream, more
):
    script = upstream.script(model, reply(chunk({"content": "one"}), Pause(20)))
    with connect(gateway.port, post(ask(model, stream=stream)) + more) as connection:
        wait_for(lambda: script.requests)
        connection.sendall(PROBE[:9])
        left_at = time.monotonic()
    assert wait_for(lambda: script.last.closed_at) - left_at < LONG_BEFORE_THE_END
    assert gateway.exchange(model=model)["outcome"] == "client_disconnect"


PIPELINED = {
    "many": PROBE * 9,
    "a large one": post(b" " * 70_000),
    "several that are too large in sum": post(b" " * 30_000) * 3,
}


@pytest.mark.parametrize("more", PIPELINED.values(), ids=PIPELINED)
def test_too_many_pipelined_requests_close_the_connection(gateway, upstream, model, more):
    script = upstream.script(model, reply(chunk({"content": "one"}), Pause(20)))
    with connect(gateway.port, post(ask(model, stream=True))) as connection:
        assert b"200 OK" in connection.recv(65536)
        connection.sendall(more)
        assert is_closed(connection, 60)
    wait_for(lambda: script.last.closed_at)
    assert gateway.exchange(model=model)["outcome"] == "client_disconnect"


def test_garbage_after_a_request_never_gets_an_error_into_its_answer(gateway, upstream, model):
    upstream.script(model, reply(chunk({"content": "one"}), Pause(20)))
    with connect(gateway.port, post(ask(model, stream=True))) as connection:
        received = b""
        while b"one" not in received:
            received += connection.recv(65536)
        connection.sendall(b"\0garbage\r\n\r\n")
        while data := connection.recv(65536):
            received += data
    assert received.count(b"HTTP/1.1") == 1
    assert b"malformed" not in received
    assert gateway.exchange(model=model)["outcome"] == "client_disconnect"


@pytest.fixture(scope="module")
def impatient(upstream, tmp_path_factory):
    """A gateway with short time limits. No request of these tests may cause a warning or an error."""
    gateway = Gateway(
        Path(tmp_path_factory.mktemp("impatient")),
        OPENROUTER_API_KEY="sk-or-canary-of-the-upstream",
        OPENROUTER_BASE_URL=upstream.url,
    ).start()
    gateway.edit(
        "s = GatewaySettings.objects.get(); s.request_timeout = 2; s.stall_timeout = 2;"
        " s.ping_after = 0.5; s.drain_time = 2; s.save()"
    )
    yield gateway
    lines = [json.loads(line) for line in gateway.log.splitlines() if line.startswith("{")]
    assert not [line for line in lines if line["level"] in ("WARNING", "ERROR")]
    gateway.stop()


def drip(connection, data, seconds=0.2):
    """Send a byte at a time until the server answers or closes."""
    connection.settimeout(seconds)
    for at in range(len(data)):
        try:
            connection.sendall(data[at : at + 1])
            if connection.recv(1, socket.MSG_PEEK) is not None:
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    connection.settimeout(60)


def test_headers_that_arrive_too_slowly_are_408(impatient):
    began = time.monotonic()
    with connect(impatient.port) as connection:
        drip(connection, HEAD + b"a: " + b"x" * 500)
        seen = answer(connection, patience=60)
    assert (seen.status, seen.code, seen.is_closed) == (408, "request_timeout", True)
    assert 1.9 < time.monotonic() - began < 25


def test_a_body_that_arrives_too_slowly_is_408(impatient, model):
    began = time.monotonic()
    with connect(impatient.port) as connection:
        drip(connection, post(b"{" * 500).replace(b"{" * 500, b""), seconds=0.001)
        drip(connection, b" " * 500)
        seen = answer(connection, patience=60)
    assert (seen.status, seen.code, seen.is_closed) == (408, "request_timeout", True)
    assert seen.json["error"]["type"] == "timeout_error"
    assert 1.9 < time.monotonic() - began < 25


@pytest.mark.parametrize("path", ["/admin/login/", "/api/keys/"])
def test_a_page_body_that_does_not_arrive_is_408(impatient, path):
    began = time.monotonic()
    with connect(impatient.port, post(b"a=", "content-length: 500", path=path)) as connection:
        seen = answer(connection, patience=60)
    assert (seen.status, seen.code, seen.is_closed) == (408, "request_timeout", True)
    assert 1.9 < time.monotonic() - began < 25
    assert ("detail" in seen.json) if "api" in path else (b"in time" in seen.body)


@pytest.mark.parametrize("data", [b"", b"\r\n\r\n"], ids=["nothing", "blank lines"])
def test_a_connection_without_a_request_is_closed(impatient, data):
    with connect(impatient.port, data) as connection:
        assert 1.5 < closed_after(connection) < 25


def test_blank_lines_after_an_answer_do_not_keep_a_connection_open(impatient):
    with connect(impatient.port, PROBE) as connection:
        assert answer(connection, patience=0).status == 200
        connection.settimeout(60)
        connection.sendall(b"\r\n")
        assert 1.5 < closed_after(connection) < 25


def test_a_slow_answer_is_not_a_slow_request(impatient, upstream, model):
    upstream.script(model, reply(chunk({"content": "one"}), Pause(3), chunk({}, "stop")))
    with connect(impatient.port, post(ask(model, stream=True))) as connection:
        assert b"message_stop" in answer(connection, patience=0).body


def flood(size):
    """An answer of `size` bytes, in parts of 64 KB that share one object."""
    part = chunk({"content": "x" * 65_000})
    return [*reply(ends=False), *[b"%x\r\n%b\r\n" % (len(part), part)] * (size // len(part))]


def memory(gateway):
    lines = Path(f"/proc/{gateway.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024


def test_a_client_that_stops_reading_uses_little_memory_and_is_dropped(impatient, upstream, model):
    upstream.script("test/warm", flood(20 * 2**20))  # first-time allocations
    with connect(impatient.port, post(ask("test/warm", stream=True))) as connection:
        for _ in range(50):
            connection.recv(65536)
    script = upstream.script(model, flood(200 * 2**20))
    before = memory(impatient)
    with connect(impatient.port, post(ask(model, stream=True)), receive_buffer=4096) as connection:
        assert b"200 OK" in connection.recv(4096)
        began, growth = time.monotonic(), 0
        while script.last.closed_at is None:
            growth = max(growth, memory(impatient) - before)
            assert time.monotonic() - began < 30, "the connection is never closed"
            time.sleep(0.05)
        assert time.monotonic() - began > 1.9
        assert is_closed(connection, 60)
    print(f"{growth / 2**20:.1f} MiB more")
    assert growth < 4 * 2**20
    row = impatient.exchange(model=model)
    assert (row["outcome"], row["error_code"]) == ("client_disconnect", "client_stalled")
    assert row["error_source"] == "client"
    assert row["bytes_upstream"] < 32 * 2**20, "the upstream was read too far ahead of the client"
    wait_for(lambda: value(scrape(impatient.url), "athena_held_places") == 0)


def test_a_slow_client_that_keeps_reading_gets_the_whole_answer(impatient, upstream, model):
    upstream.script(model, [*flood(2**21), *reply(chunk({}, "stop"))[1:]])
    with connect(impatient.port, post(ask(model, stream=True)), receive_buffer=4096) as connection:
        received, began = b"", time.monotonic()
        while time.monotonic() - began < 5:  # longer than two stall timeouts
            received += connection.recv(2048)
            time.sleep(0.2)
        assert received
        while b"message_stop" not in received[-4096:]:
            data = connection.recv(2**20)
            assert data, "the answer was cut off"
            received += data
    assert impatient.exchange(model=model)["outcome"] == "ok"


def test_a_client_that_stops_reading_a_document_is_dropped(impatient, upstream, model):
    upstream.script(model, [*flood(20 * 2**20), *reply(chunk({}, "stop"))[1:]])
    with connect(impatient.port, post(ask(model)), receive_buffer=4096) as connection:
        row = impatient.exchange(model=model)
        assert row["outcome"] in ("ok", "client_disconnect")  # the document is written at once
        wait_for(lambda: has_server_closed(connection))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
        assert is_closed(connection, 60), "the connection is never closed"


def test_half_closing_the_connection_is_a_disconnect(impatient, upstream, model):
    script = upstream.script(model, reply(chunk({"content": "one"}), Pause(20)))
    with connect(impatient.port, post(ask(model, stream=True))) as connection:
        assert b"200 OK" in connection.recv(65536)
        left_at = time.monotonic()
        connection.shutdown(socket.SHUT_WR)
        assert wait_for(lambda: script.last.closed_at) - left_at < LONG_BEFORE_THE_END
        assert is_closed(connection, 60)
    assert impatient.exchange(model=model)["outcome"] == "client_disconnect"


def test_a_disconnect_while_a_call_is_buffered_frees_the_buffer(impatient, upstream):
    model = "qwen/qwen3-held"
    text = '<tool_call>{"arguments": {"harbor": "' + "x" * 20_000
    # In a read of its own: bytes that arrive with a delivered event do not count as held.
    parts = [chunk({"content": "Hm"}), Pause(1), chunk({"content": text}), Pause(20)]
    script = upstream.script(model, reply(*parts))
    body = ask(model, stream=True, tools=TOOLS)
    with connect(impatient.port, post(body)) as connection:
        assert b"200 OK" in connection.recv(65536)
        wait_for(lambda: value(scrape(impatient.url), "athena_buffer_bytes") > 20_000)
        left_at = time.monotonic()
    assert wait_for(lambda: script.last.closed_at) - left_at < LONG_BEFORE_THE_END
    assert impatient.exchange(model=model)["outcome"] == "client_disconnect"
    for name in ("athena_buffer_bytes", "athena_held_places", "athena_open_streams"):
        wait_for(lambda name=name: value(scrape(impatient.url), name) == 0)


@pytest.mark.parametrize("framing", ["content-length: 33554433", "transfer-encoding: chunked"])
def test_an_oversized_body_closes_the_connection_before_its_end(impatient, framing):
    with connect(impatient.port, post(b"", framing)) as connection:
        if "chunked" in framing:
            connection.sendall(b"%x\r\n" % 2**26)
            sent, part = 0, b" " * 2**20
            with contextlib.suppress(ConnectionError):  # the server has closed the connection
                while sent < 2**25 + 2**21:
                    connection.sendall(part)
                    sent += len(part)
        seen = answer(connection, patience=60)
    assert (seen.status, seen.code, seen.is_closed) == (413, "body_too_large", True)
    assert seen.json["error"]["type"] == "request_too_large"


@pytest.mark.parametrize("key", ["", "sk-athena-unknown"])
def test_the_body_of_an_unknown_caller_is_not_buffered(impatient, key):
    """A caller without a key must not be able to fill the memory."""
    before = memory(impatient)
    with connect(impatient.port, post(b"", f"content-length: {2**24}", key=key)) as connection:
        for _ in range(16):  # the whole body: the client can still read the error
            connection.sendall(b" " * 2**20)
        assert memory(impatient) - before < 8 * 2**20
        seen = answer(connection, patience=60)
    assert (seen.status, seen.code, seen.is_closed) == (401, "invalid_key", True)


def test_an_unknown_caller_is_answered_before_its_body_and_soon_disconnected(impatient):
    with connect(impatient.port, post(b"", "content-length: 1000000", key="unknown")) as connection:
        assert answer(connection).code == "invalid_key"
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 30:
                connection.sendall(b" ")
                time.sleep(0.1)
        assert time.monotonic() - began < 25


def test_hundreds_of_idle_connections_are_closed_and_do_not_affect_others(
    impatient, upstream, model
):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    upstream.script(model, says("Hi"))
    connections = [connect(impatient.port, HEAD[: number % 30]) for number in range(300)]
    try:
        with impatient.client() as client:
            assert client.post("/v1/messages", json=ask(model)).status_code == 200
        for connection in connections:
            assert is_closed(connection, 60)
        descriptors = Path(f"/proc/{impatient.process.pid}/fd")
        wait_for(lambda: len(list(descriptors.iterdir())) < 100)
    finally:
        for connection in connections:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
