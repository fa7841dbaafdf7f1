"""The connection pool, against real sockets and real certificates."""

import asyncio
import datetime
import ipaddress
import json
import ssl
import time
from contextlib import suppress

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from proxy.configuration.upstream import head_of, origin_of
from proxy.upstreams.client import HttpxAnswer
from proxy.upstreams.connection import BodyTruncated
from proxy.upstreams.pool import ConnectionPool, PooledAnswer
from tests.support.chat import chunk, reply
from tests.support.scripted_upstream import Close, Hold, Pause, Reset


async def send(
    pool: ConnectionPool,
    url: str,
    model: str = "m",
    *,
    connect: float = 5,
    read: float = 5,
    **allowed: bool,
) -> PooledAnswer:
    target, headers = httpx.URL(url), [("content-type", "application/json")]
    return await pool.send(
        origin_of(target),
        head_of(target, headers),
        json.dumps({"model": model}).encode(),
        connect_timeout=connect,
        answer_timeout=read,
        **allowed,
    )


async def read_all(body: PooledAnswer) -> bytes:
    data = b""
    try:
        while part := await body.read():
            data += part
    finally:
        body.abort()
    return data


def run(test, *, rest=0.0):
    """Run a test with a pool, in which connections rest for `rest` seconds before their reuse."""

    async def main():
        pool = ConnectionPool(rest=rest)
        try:
            return await asyncio.wait_for(test(pool), 60)
        finally:
            await pool.aclose()
            await asyncio.sleep(0.02)  # asyncio closes sockets a moment later

    return asyncio.run(main())


async def fetch(pool, upstream, model, **timeouts):
    answer = await send(pool, f"{upstream.url}/chat/completions", model, **timeouts)
    return answer, await read_all(answer)


def test_a_chunked_body_is_read_whole(upstream, model):
    upstream.script(model, reply(b"one ", b"two ", Pause(0.05), b"three"))
    answer, body = run(lambda pool: fetch(pool, upstream, model))
    assert (answer.status, body) == (200, b"one two three")
    assert (b"content-type", b"text/event-stream") in answer.headers


@pytest.mark.parametrize(
    "steps",
    [
        [b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc"],
        [b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabc", Close],
        [b"HTTP/1.0 200 OK\r\n\r\nabc", Close],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\n\r\nabc", Close],
        [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc"],
        [b"HTT", b"P/1.1 200 O", b"K\r\ncontent-len", b"gth: 3\r\n\r", b"\nab", b"c"],
    ],
)  # fmt: skip
def test_every_http_framing_is_supported(upstream, model, steps):
    upstream.script(model, steps)
    answer, body = run(lambda pool: fetch(pool, upstream, model))
    assert (answer.status, body) == (200, b"abc")
    assert b"link" not in dict(answer.headers)


@pytest.mark.parametrize(("fault", "error"), [(Reset, httpx.ReadError), (Close, BodyTruncated)])
def test_a_truncated_body_is_an_error(upstream, model, fault, error):
    upstream.script(model, reply(b"one", fault, ends=False))
    with pytest.raises(httpx.ReadError) as caught:
        run(lambda pool: fetch(pool, upstream, model))
    assert type(caught.value) is error


def test_a_reset_does_not_end_a_body_without_a_length(upstream, model):
    upstream.script(model, [b"HTTP/1.1 200 OK\r\n\r\nabc", Pause(0.1), Reset])
    with pytest.raises(httpx.ReadError):
        run(lambda pool: fetch(pool, upstream, model))


def test_a_malformed_body_is_not_reported_as_a_lost_connection(upstream, model):
    upstream.script(model, [*reply(b"one", ends=False), b"-1\r\n", Pause(1)])
    with pytest.raises(httpx.RemoteProtocolError):
        run(lambda pool: fetch(pool, upstream, model))


def test_a_body_shorter_than_its_content_length_is_an_error(upstream, model):
    upstream.script(model, [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", Close])
    with pytest.raises(httpx.ReadError):
        run(lambda pool: fetch(pool, upstream, model))


@pytest.mark.parametrize(
    "garbage",
    [
        b"not http\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ],
)
def test_an_answer_that_is_not_http_is_an_error(upstream, model, garbage):
    upstream.script(model, [garbage, Pause(1)])
    with pytest.raises(httpx.RemoteProtocolError):
        run(lambda pool: fetch(pool, upstream, model))


def test_endless_headers_are_an_error(upstream, model):
    upstream.script(
        model, [b"HTTP/1.1 200 OK\r\n", b"x-long: " + b"x" * 100_000 + b"\r\n\r\n", Pause(1)]
    )
    with pytest.raises(httpx.RemoteProtocolError):
        run(lambda pool: fetch(pool, upstream, model))


def test_oversized_headers_that_arrive_with_the_body_are_an_error(upstream, model):
    long = b"x-long: " + b"x" * 66_000
    upstream.script(model, [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n%b\r\n\r\nhi" % long])
    with pytest.raises(httpx.RemoteProtocolError):
        run(lambda pool: fetch(pool, upstream, model))


@pytest.mark.parametrize(
    "start",
    [
        b"HTTP/1.1 200 OK\r\nx-long: ",
        b"HTTP/1.1 200 ",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-long: ",
    ],
    ids=["header", "reason", "trailer"],
)
def test_an_endless_line_is_rejected_before_it_fills_the_memory(upstream, model, start):
    upstream.script(model, [start, *[b"x" * 100_000] * 5, Pause(5)])
    with pytest.raises(httpx.RemoteProtocolError):
        run(lambda pool: fetch(pool, upstream, model, read=2))


def test_a_connection_is_reused(upstream, model):
    upstream.script(model, reply(b"x"))

    async def test(pool):
        first = await send(pool, f"{upstream.url}/x", model)
        connection = first._connection
        await read_all(first)
        second = await send(pool, f"{upstream.url}/x", model)
        is_same = connection is second._connection
        second.abort()
        return is_same

    assert run(test)


def test_the_rest_of_a_body_is_discarded_before_the_connection_is_reused(
    upstream, model, monkeypatch
):
    monkeypatch.setattr("proxy.upstreams.pool._DISCARD_SECONDS", 60)
    upstream.script(model, reply(b"one", Pause(0.2), b"two"))

    async def test(pool):
        first = await send(pool, f"{upstream.url}/x", model)
        connection = first._connection
        assert await first.read() == b"one"
        first.finish()
        assert pool.discarding
        while pool.discarding:
            await asyncio.sleep(0.02)
        second = await send(pool, f"{upstream.url}/x", model)
        is_same = connection is second._connection
        second.abort()
        return is_same

    assert run(test)


UNREAD = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nan unread"
OWN = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nown"


@pytest.mark.parametrize("method", ["abort", "finish"])
def test_an_unread_answer_is_never_taken_for_the_next_one(upstream, model, method):
    upstream.script(model, [UNREAD], [OWN])

    async def test(pool):
        first = await send(pool, f"{upstream.url}/x", model)
        while not first._connection._is_complete:
            await asyncio.sleep(0.02)
        getattr(first, method)()
        return await fetch(pool, upstream, model)

    assert run(test)[1] == b"own"


@pytest.mark.parametrize("extra", [UNREAD, UNREAD[:-3], b"HTTP/1.1 200", b"x"])
@pytest.mark.parametrize("connection", [b"", b"connection: close\r\n"])
def test_data_after_an_answer_is_dropped(upstream, model, extra, connection):
    first = OWN.replace(b"\r\n\r\n", b"\r\n" + connection + b"\r\n")
    upstream.script(model, [first + extra, Pause(0.1), b"rest"], [OWN])

    async def test(pool):
        return [(await fetch(pool, upstream, model))[1] for _ in range(2)]

    assert run(test) == [b"own", b"own"]


FOREIGN = b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nforeign"


@pytest.mark.parametrize("extra", [FOREIGN, FOREIGN[:-3], b"HTTP/1.1 100 Continue\r\n\r\n", b"x"])
@pytest.mark.parametrize("delay", [0.001, 0.01])
def test_data_that_arrives_soon_after_an_answer_never_reaches_the_next_request(
    upstream, model, extra, delay
):
    """W1. The rest is longer than the product's, because a busy machine may send the data late."""
    script = upstream.script(model, [OWN, Pause(delay), extra, Pause(0.1)], [OWN])

    async def test(pool):
        return [(await fetch(pool, upstream, model))[1] for _ in range(3)]

    assert run(test, rest=60) == [b"own"] * 3
    assert len(script.requests) == 3


@pytest.mark.parametrize("has_loop_read", [True, False])
def test_data_in_the_socket_of_an_idle_connection_is_never_an_answer(
    upstream, model, has_loop_read, caplog
):
    """W1: the event loop has read the data, or is about to."""
    late = Hold()
    script = upstream.script(model, [OWN, late, FOREIGN, Pause(0.1)], [OWN])

    async def test(pool):
        first = await send(pool, f"{upstream.url}/x", model)
        connection = first._connection
        await read_all(first)
        assert pool._idle[origin_of(httpx.URL(upstream.url))] == [connection]
        late.event.set()
        if has_loop_read:
            while connection.is_alive:
                await asyncio.sleep(0.02)
        else:
            while connection._peek() is None:
                time.sleep(0.02)
        return (await fetch(pool, upstream, model))[1]

    assert run(test) == b"own"
    assert len({request.peer for request in script.requests}) == 2
    (line,) = [line.getMessage() for line in caplog.records if line.name == "athena.pool"]
    assert line.startswith(upstream.url.removesuffix("/v1"))


@pytest.mark.parametrize("extra", [FOREIGN, b"x", b"HTTP/1.1 204 No Content\r\n\r\n"])
@pytest.mark.parametrize("pause", [[], [Pause(0.05)]], ids=["at once", "late"])
def test_an_upstream_that_sent_data_after_an_answer_gets_new_connections_for_an_hour(
    upstream, model, extra, pause, monkeypatch
):
    """W1."""
    end = [*pause, extra] if pause else []
    script = upstream.script(model, [OWN if pause else OWN + extra, *end, Pause(0.05)], [OWN])
    now = 1_000_000.0
    monkeypatch.setattr("proxy.upstreams.pool.time.time", lambda: now)

    async def test(pool):
        nonlocal now
        origin = origin_of(httpx.URL(upstream.url))
        await fetch(pool, upstream, model)
        while not pool.suspected():
            await asyncio.sleep(0.02)
        assert pool.suspected() == {origin: now + 3600}
        for _ in range(3):
            assert (await fetch(pool, upstream, model))[1] == b"own"
        now += 3600
        assert pool.suspected() == {}
        for _ in range(3):
            assert (await fetch(pool, upstream, model))[1] == b"own"

    run(test)
    peers = [request.peer for request in script.requests]
    assert len(set(peers[:5])) == 5
    assert len(set(peers[4:])) == 1


def test_the_idle_connections_of_a_suspected_upstream_are_closed(upstream, model):
    """W1: other connections of the upstream may be just as wrong."""
    held = Hold()
    upstream.script(model, [Pause(0.1), OWN], [Pause(0.1), OWN], [held, OWN + FOREIGN])

    async def test(pool):
        await asyncio.gather(fetch(pool, upstream, model), fetch(pool, upstream, model))
        idle = [*pool._idle[origin_of(httpx.URL(upstream.url))]]
        third = asyncio.create_task(fetch(pool, upstream, model))
        held.event.set()
        await third
        return [connection.is_alive for connection in idle]

    assert run(test) == [False, False]


def test_an_idle_connection_that_is_closed_with_408_raises_no_suspicion(upstream, model):
    """HAProxy closes idle connections with an answer that no request asked for."""
    timeout = b"HTTP/1.0 408 Request Time-out\r\nconnection: close\r\n\r\n"
    script = upstream.script(model, [OWN, Pause(0.05), timeout, Close], [OWN])

    async def test(pool):
        first = await send(pool, f"{upstream.url}/x", model)
        connection = first._connection
        await read_all(first)
        while connection.is_alive:
            await asyncio.sleep(0.02)
        assert (await fetch(pool, upstream, model))[1] == b"own"
        return pool.suspected()

    assert run(test) == {}
    assert len(script.requests) == 2


@pytest.mark.parametrize(
    "head",
    [b"503 Busy", b"204 No Content", b"304 Not Modified", b"201 Created"],
)
def test_a_connection_is_reused_only_after_status_200(upstream, model, head):
    """W1: after an early rejection, an upstream may take the rest of the request for the next one."""
    body = b"" if head[0:1] in b"3" or head.startswith(b"204") else b"own"
    answer = b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (head, len(body), body)
    script = upstream.script(model, [answer])

    async def test(pool):
        for _ in range(2):
            await fetch(pool, upstream, model)

    run(test)
    assert len({request.peer for request in script.requests}) == 2


def test_connections_are_not_reused_if_the_upstream_says_so(upstream, model):
    """W1: the switch of the upstream."""
    script = upstream.script(model, [OWN])

    async def test(pool):
        for uses, keeps in ((True, False), (True, True), (False, True), (True, True)):
            answer = await send(pool, f"{upstream.url}/x", model, may_use_idle=uses, may_keep=keeps)
            await read_all(answer)

    run(test)
    first, second, third, fourth = (request.peer for request in script.requests)
    assert len({first, second, third}) == 3
    assert fourth == third


def test_data_before_the_request_is_never_the_answer():
    """W1: a server that speaks first."""

    async def test(pool):
        requests = []

        async def serve(reader, writer):
            writer.write(FOREIGN)
            with suppress(asyncio.IncompleteReadError, OSError):
                requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        connect = pool._connect

        async def connect_slowly(origin):
            connection = await connect(origin)
            while connection.is_alive and connection._peek() is None:
                await asyncio.sleep(0)
            return connection

        pool._connect = connect_slowly
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(httpx.ReadError):
                await send(pool, f"http://127.0.0.1:{port}/")
        assert requests == []
        assert pool.suspected()

    run(test)


@pytest.mark.parametrize("trailer", [b"x-trailer: t\r\n", b"Set-Cookie: a\r\n"])
def test_trailers_are_dropped_at_any_split(upstream, model, trailer):
    """W9."""
    whole = b"HTTP/1.1 200 OK\r\nx-own: h\r\ntransfer-encoding: chunked\r\n\r\n3\r\nown\r\n0\r\n"
    whole += trailer + b"\r\n"
    head = [(b"x-own", b"h"), (b"transfer-encoding", b"chunked")]

    async def test(pool):
        for cut in range(1, len(whole)):
            upstream.script(model, [whole[:cut], Pause(0.002), whole[cut:]])
            answer = await send(pool, f"{upstream.url}/x", model)
            assert await read_all(answer) == b"own"
            assert answer.headers == head, cut
        upstream.script(model, [whole])
        answer = await send(pool, f"{upstream.url}/x", model)
        assert await read_all(answer) == b"own"
        assert answer.headers == head

    run(test)


def test_a_closing_connection_is_not_reused(upstream, model):
    upstream.script(model, [OWN])

    async def test(pool):
        first = await send(pool, f"{upstream.url}/x", model)
        connection = first._connection
        await read_all(first)
        connection._transport.close()  # asyncio calls connection_lost later
        return await fetch(pool, upstream, model)

    assert run(test)[1] == b"own"


def test_a_connection_is_closed_if_its_body_does_not_end_soon(upstream, model):
    script = upstream.script(model, reply(b"one", Pause(30)))

    async def test(pool):
        first = await send(pool, f"{upstream.url}/x", model)
        assert await first.read() == b"one"
        first.finish()
        while script.last.closed_at is None:
            await asyncio.sleep(0.02)
        return True

    assert run(test)


def test_a_connection_that_was_closed_while_idle_is_replaced(upstream, model):
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx"
    # The server closes the connection right after a keep-alive answer.
    script = upstream.script(model, [answer, Close])

    async def test(pool):
        for _ in range(3):
            assert (await fetch(pool, upstream, model))[1] == b"x"

    run(test)
    assert len(script.requests) == 3


def test_a_connection_that_is_reset_by_the_next_request_is_replaced_once(upstream, model):
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx"
    script = upstream.script(model, [answer], [Reset], [answer])

    async def test(pool):
        assert (await fetch(pool, upstream, model))[1] == b"x"
        assert (await fetch(pool, upstream, model))[1] == b"x"

    run(test)
    assert len(script.requests) == 3


def test_a_request_that_crashes_its_server_is_not_sent_on_every_idle_connection(upstream, model):
    upstream.script(model, [Pause(0.2), OWN])
    script = upstream.script(f"{model}-poison", [Reset])

    async def test(pool):
        await asyncio.gather(*[fetch(pool, upstream, model) for _ in range(5)])
        await fetch(pool, upstream, f"{model}-poison")

    with pytest.raises(httpx.ReadError):
        run(test)
    assert len(script.requests) == 2


def test_the_loss_of_a_new_connection_is_an_error(upstream, model):
    script = upstream.script(model, [Reset])
    with pytest.raises(httpx.ReadError):
        run(lambda pool: fetch(pool, upstream, model))
    assert len(script.requests) == 1


def test_read_and_pool_timeouts_have_their_own_exceptions(upstream, model):
    upstream.script(model, [Pause(5)])
    with pytest.raises(httpx.ReadTimeout):
        run(lambda pool: fetch(pool, upstream, model, read=0.2))

    async def full(pool):
        pool._slots = asyncio.Semaphore(1)
        upstream.script(model, reply(b"x", Pause(5)))
        occupying = await send(pool, f"{upstream.url}/x", model)
        try:
            await fetch(pool, upstream, model, connect=0.2)
        finally:
            occupying.abort()

    with pytest.raises(httpx.PoolTimeout):
        run(full)


def test_a_read_can_be_interrupted_without_losing_data(upstream, model):
    upstream.script(model, reply(b"one", Pause(0.4), b"two"))

    async def test(pool):
        body = await send(pool, f"{upstream.url}/x", model)
        assert await body.read() == b"one"
        asyncio.get_running_loop().call_later(0.1, body.interrupt_read)
        assert await body.read() is None
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(body.read(), 0.05)
        assert await body.read() == b"two"
        assert await body.read() == b""
        body.abort()

    run(test)


def test_a_slow_reader_applies_back_pressure_to_the_upstream(upstream, model):
    total = 30_000_000
    upstream.script(model, reply(*[b"x" * 100_000 for _ in range(total // 100_000)]))

    async def test(pool):
        answer = await send(pool, f"{upstream.url}/x", model)
        connection = answer._connection
        while connection._transport.is_reading():
            await asyncio.sleep(0.02)
        buffered = sum(map(len, connection._chunks))
        size = 0
        while data := await answer.read():
            size += len(data)
        answer.abort()
        return buffered, size

    buffered, size = run(test)
    assert buffered < 2_000_000
    assert size == total


def certificate(tmp_path, host: str, *, days: int = 1):
    """Write a self-signed certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    is_address = host.replace(".", "").isdigit()
    alternative = x509.IPAddress(ipaddress.ip_address(host)) if is_address else x509.DNSName(host)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=9))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM) + private)
    return path


async def tls_server(path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    return server, server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("host", "days", "trusted", "works"),
    [
        ("127.0.0.1", 1, True, True),
        ("127.0.0.1", 1, False, False),
        ("127.0.0.1", -1, True, False),
        ("example.org", 1, True, False),
    ],
    ids=["good", "self-signed", "expired", "wrong host"],
)
def test_certificates_are_verified(tmp_path, monkeypatch, host, days, trusted, works):
    path = certificate(tmp_path, host, days=days)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(path))

    async def test(pool):
        server, port = await tls_server(path)
        async with server:
            return await read_all(await send(pool, f"https://127.0.0.1:{port}/"))

    if works:
        assert run(test) == b"ok"
    else:
        with pytest.raises(httpx.ConnectError) as caught:
            run(test)
        assert isinstance(caught.value.__cause__, ssl.SSLError)


def test_plain_text_where_tls_was_expected_is_an_error():
    async def test(pool):
        async def serve(reader, writer):
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await send(pool, f"https://127.0.0.1:{port}/")

    with pytest.raises(httpx.ConnectError):
        run(test)


def test_answers_of_the_httpx_transport_can_be_interrupted(upstream, model, tmp_path):
    """`ATHENA_TRANSPORT=httpx` supports proxies."""
    upstream.script(model, reply(chunk({"content": "one"}), Pause(0.3), b"two"))

    async def test(_):
        async with httpx.AsyncClient() as client:
            sent = client.build_request("POST", f"{upstream.url}/x", json={"model": model})
            answer = HttpxAnswer(await client.send(sent, stream=True))
            assert b"one" in (await answer.read() or b"")
            asyncio.get_running_loop().call_later(0.1, answer.interrupt_read)
            assert await answer.read() is None
            assert await answer.read() == b"two"
            assert await answer.read() == b""

    run(test)


def test_an_aborted_httpx_answer_releases_its_connection(upstream, model):
    upstream.script(model, reply(b"one", Pause(60)))

    async def test(_):
        limits = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(limits=limits, timeout=20) as client:
            for _ in range(3):  # a request that gets no connection raises PoolTimeout
                sent = client.build_request("POST", f"{upstream.url}/x", json={"model": model})
                answer = HttpxAnswer(await client.send(sent, stream=True))
                answer.abort()
            await asyncio.wait([answer._task])

    run(test)


def test_closing_the_pool_closes_answers_that_are_being_discarded(upstream, model):
    upstream.script(model, reply(b"one ", Pause(3), b"two"))

    async def finish(pool):
        url = f"{upstream.url}/chat/completions"
        answer = await send(pool, url, model)
        await answer.read()
        answer.finish()
        connection = answer._connection
        assert connection.is_alive
        await pool.aclose()
        return connection.is_alive

    assert run(finish) is False
