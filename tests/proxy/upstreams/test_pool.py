"""The connections to upstreams, tried against real sockets and real certificates."""

import asyncio
import datetime
import ipaddress
import json
import ssl

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from proxy.configuration.upstream import head_of, origin_of
from proxy.upstreams.client import ReadAhead
from proxy.upstreams.connection import Cut
from proxy.upstreams.pool import Body, Transport
from tests.support.chat import chunk, reply
from tests.support.scripted_upstream import Close, Pause, Reset


async def send(
    transport: Transport, url: str, model: str = "m", *, connect: float = 5, read: float = 5
) -> Body:
    target, headers = httpx.URL(url), [("content-type", "application/json")]
    return await transport.send(
        origin_of(target),
        head_of(target, headers),
        json.dumps({"model": model}).encode(),
        connect_timeout=connect,
        answer_timeout=read,
    )


async def read_all(body: Body) -> bytes:
    data = b""
    try:
        while part := await body.read():
            data += part
    finally:
        body.abort()
    return data


def run(test):
    """Run a coroutine with a transport of its own."""

    async def main():
        transport = Transport()
        try:
            return await asyncio.wait_for(test(transport), 20)
        finally:
            await transport.aclose()
            await asyncio.sleep(0.02)  # asyncio closes sockets a moment later

    return asyncio.run(main())


async def fetch(transport, upstream, model, **timeouts):
    answer = await send(transport, f"{upstream.url}/chat/completions", model, **timeouts)
    return answer, await read_all(answer)


def test_a_chunked_body_is_read_whole(upstream, model):
    upstream.script(model, reply(b"one ", b"two ", Pause(0.05), b"three"))
    answer, body = run(lambda transport: fetch(transport, upstream, model))
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
def test_every_framing_of_http_is_understood(upstream, model, steps):
    upstream.script(model, steps)
    answer, body = run(lambda transport: fetch(transport, upstream, model))
    assert (answer.status, body) == (200, b"abc")
    assert b"link" not in dict(answer.headers)


@pytest.mark.parametrize(("fault", "error"), [(Reset, httpx.ReadError), (Close, Cut)])
def test_a_cut_body_is_an_error(upstream, model, fault, error):
    upstream.script(model, reply(b"one", fault, ends=False))
    with pytest.raises(httpx.ReadError) as caught:
        run(lambda transport: fetch(transport, upstream, model))
    assert type(caught.value) is error


def test_a_reset_is_no_end_of_a_body_without_length(upstream, model):
    upstream.script(model, [b"HTTP/1.1 200 OK\r\n\r\nabc", Pause(0.1), Reset])
    with pytest.raises(httpx.ReadError):
        run(lambda transport: fetch(transport, upstream, model))


def test_a_broken_body_is_not_told_as_a_lost_connection(upstream, model):
    upstream.script(model, [*reply(b"one", ends=False), b"-1\r\n", Pause(1)])
    with pytest.raises(httpx.RemoteProtocolError):
        run(lambda transport: fetch(transport, upstream, model))


def test_a_body_that_is_shorter_than_promised_is_an_error(upstream, model):
    upstream.script(model, [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", Close])
    with pytest.raises(httpx.ReadError):
        run(lambda transport: fetch(transport, upstream, model))


@pytest.mark.parametrize(
    "garbage",
    [
        b"not http\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ],
)
def test_what_is_not_http_is_an_error(upstream, model, garbage):
    upstream.script(model, [garbage, Pause(1)])
    with pytest.raises(httpx.RemoteProtocolError):
        run(lambda transport: fetch(transport, upstream, model))


def test_headers_without_end_are_an_error(upstream, model):
    upstream.script(
        model, [b"HTTP/1.1 200 OK\r\n", b"x-long: " + b"x" * 100_000 + b"\r\n\r\n", Pause(1)]
    )
    with pytest.raises(httpx.RemoteProtocolError):
        run(lambda transport: fetch(transport, upstream, model))


def test_so_are_headers_that_are_too_long_and_come_with_the_body(upstream, model):
    long = b"x-long: " + b"x" * 66_000
    upstream.script(model, [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n%b\r\n\r\nhi" % long])
    with pytest.raises(httpx.RemoteProtocolError):
        run(lambda transport: fetch(transport, upstream, model))


@pytest.mark.parametrize(
    "beginning",
    [
        b"HTTP/1.1 200 OK\r\nx-long: ",
        b"HTTP/1.1 200 ",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-long: ",
    ],
    ids=["header", "reason", "trailer"],
)
def test_a_line_without_end_is_an_error_before_it_fills_the_memory(upstream, model, beginning):
    upstream.script(model, [beginning, *[b"x" * 100_000] * 5, Pause(5)])
    with pytest.raises(httpx.RemoteProtocolError):
        run(lambda transport: fetch(transport, upstream, model, read=2))


def test_a_connection_is_used_again(upstream, model):
    upstream.script(model, reply(b"x"))

    async def test(transport):
        first = await send(transport, f"{upstream.url}/x", model)
        used = first._connection
        await read_all(first)
        second = await send(transport, f"{upstream.url}/x", model)
        is_same = used is second._connection
        second.abort()
        return is_same

    assert run(test)


def test_an_unread_rest_passes_before_the_connection_is_used_again(upstream, model):
    upstream.script(model, reply(b"one", Pause(0.2), b"two"))

    async def test(transport):
        first = await send(transport, f"{upstream.url}/x", model)
        used = first._connection
        assert await first.read() == b"one"
        first.finish()
        await asyncio.sleep(0.4)
        second = await send(transport, f"{upstream.url}/x", model)
        is_same = used is second._connection
        second.abort()
        return is_same

    assert run(test)


OF_ANOTHER = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nanother's"
OWN = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nown"


@pytest.mark.parametrize("leave", ["abort", "finish"])
def test_an_answer_that_nobody_read_is_never_the_next_ones(upstream, model, leave):
    upstream.script(model, [OF_ANOTHER], [OWN])

    async def test(transport):
        first = await send(transport, f"{upstream.url}/x", model)
        await asyncio.sleep(0.1)  # all of it is there
        getattr(first, leave)()
        return await fetch(transport, upstream, model)

    assert run(test)[1] == b"own"


@pytest.mark.parametrize("extra", [OF_ANOTHER, OF_ANOTHER[:-3], b"HTTP/1.1 200", b"x"])
@pytest.mark.parametrize("connection", [b"", b"connection: close\r\n"])
def test_what_follows_an_answer_belongs_to_nobody(upstream, model, extra, connection):
    first = OWN.replace(b"\r\n\r\n", b"\r\n" + connection + b"\r\n")
    upstream.script(model, [first + extra, Pause(0.1), b"rest"], [OWN])

    async def test(transport):
        return [(await fetch(transport, upstream, model))[1] for _ in range(2)]

    assert run(test) == [b"own", b"own"]


def test_a_connection_that_is_closing_is_not_used(upstream, model):
    upstream.script(model, [OWN])

    async def test(transport):
        first = await send(transport, f"{upstream.url}/x", model)
        used = first._connection
        await read_all(first)
        used._transport.close()  # asyncio tells the connection of it only later
        return await fetch(transport, upstream, model)

    assert run(test)[1] == b"own"


def test_a_rest_that_does_not_end_is_not_waited_for(upstream, model):
    script = upstream.script(model, reply(b"one", Pause(30)))

    async def test(transport):
        first = await send(transport, f"{upstream.url}/x", model)
        assert await first.read() == b"one"
        first.finish()
        await asyncio.sleep(1.3)
        return script.last.closed_at

    assert run(test)


def test_a_connection_that_died_while_idle_is_replaced(upstream, model):
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx"
    # The server closes right after an answer that promised to keep the connection.
    script = upstream.script(model, [answer, Close])

    async def test(transport):
        for _ in range(3):
            assert (await fetch(transport, upstream, model))[1] == b"x"

    run(test)
    assert len(script.requests) == 3


def test_a_connection_that_dies_under_the_next_request_is_replaced_once(upstream, model):
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx"
    script = upstream.script(model, [answer], [Reset], [answer])

    async def test(transport):
        assert (await fetch(transport, upstream, model))[1] == b"x"
        assert (await fetch(transport, upstream, model))[1] == b"x"

    run(test)
    assert len(script.requests) == 3


def test_a_request_that_kills_its_server_is_not_sent_on_every_idle_connection(upstream, model):
    upstream.script(model, [Pause(0.2), OWN])
    script = upstream.script(f"{model}-poison", [Reset])

    async def test(transport):
        await asyncio.gather(*[fetch(transport, upstream, model) for _ in range(5)])
        await fetch(transport, upstream, f"{model}-poison")

    with pytest.raises(httpx.ReadError):
        run(test)
    assert len(script.requests) == 2


def test_a_new_connection_that_is_lost_is_an_error(upstream, model):
    script = upstream.script(model, [Reset])
    with pytest.raises(httpx.ReadError):
        run(lambda transport: fetch(transport, upstream, model))
    assert len(script.requests) == 1


def test_time_outs_say_which(upstream, model):
    upstream.script(model, [Pause(5)])
    with pytest.raises(httpx.ReadTimeout):
        run(lambda transport: fetch(transport, upstream, model, read=0.2))

    async def full(transport):
        transport._slots = asyncio.Semaphore(1)
        upstream.script(model, reply(b"x", Pause(5)))
        held = await send(transport, f"{upstream.url}/x", model)
        try:
            await fetch(transport, upstream, model, connect=0.2)
        finally:
            held.abort()

    with pytest.raises(httpx.PoolTimeout):
        run(full)


def test_a_read_can_be_interrupted_and_nothing_is_lost(upstream, model):
    upstream.script(model, reply(b"one", Pause(0.4), b"two"))

    async def test(transport):
        body = await send(transport, f"{upstream.url}/x", model)
        assert await body.read() == b"one"
        asyncio.get_running_loop().call_later(0.1, body.interrupt)
        assert await body.read() is None
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(body.read(), 0.05)
        assert await body.read() == b"two"
        assert await body.read() == b""
        body.abort()

    run(test)


def test_a_slow_reader_holds_the_upstream_back(upstream, model):
    total = 30_000_000
    upstream.script(model, reply(*[b"x" * 100_000 for _ in range(total // 100_000)]))

    async def test(transport):
        answer = await send(transport, f"{upstream.url}/x", model)
        connection = answer._connection
        await asyncio.sleep(0.5)
        held = sum(map(len, connection._chunks))
        size = 0
        while data := await answer.read():
            size += len(data)
        answer.abort()
        return held, size

    held, size = run(test)
    assert held < 2_000_000
    assert size == total


def certificate(tmp_path, host: str, *, days: int = 1):
    """A self-signed certificate; it is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    is_address = host.replace(".", "").isdigit()
    alternative = x509.IPAddress(ipaddress.ip_address(host)) if is_address else x509.DNSName(host)
    made = (
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
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
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

    async def test(transport):
        server, port = await tls_server(path)
        async with server:
            return await read_all(await send(transport, f"https://127.0.0.1:{port}/"))

    if works:
        assert run(test) == b"ok"
    else:
        with pytest.raises(httpx.ConnectError) as caught:
            run(test)
        assert isinstance(caught.value.__cause__, ssl.SSLError)


def test_plain_text_where_tls_was_expected_is_an_error():
    async def test(transport):
        async def serve(reader, writer):
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await send(transport, f"https://127.0.0.1:{port}/")

    with pytest.raises(httpx.ConnectError):
        run(test)


def test_httpx_own_transport_serves_too(upstream, model, tmp_path):
    """`ATHENA_TRANSPORT=httpx` is the way through a proxy."""
    upstream.script(model, reply(chunk({"content": "one"}), Pause(0.3), b"two"))

    async def test(_):
        async with httpx.AsyncClient() as client:
            sent = client.build_request("POST", f"{upstream.url}/x", json={"model": model})
            answer = ReadAhead(await client.send(sent, stream=True))
            assert b"one" in (await answer.read() or b"")
            asyncio.get_running_loop().call_later(0.1, answer.interrupt)
            assert await answer.read() is None
            assert await answer.read() == b"two"
            assert await answer.read() == b""

    run(test)


def test_httpx_gets_a_connection_back_that_is_let_go_at_once(upstream, model):
    upstream.script(model, reply(b"one", Pause(5)))

    async def test(_):
        limits = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(limits=limits, timeout=1) as client:
            for _ in range(3):
                sent = client.build_request("POST", f"{upstream.url}/x", json={"model": model})
                ReadAhead(await client.send(sent, stream=True)).abort()
                await asyncio.sleep(0.05)

    run(test)


def test_an_answer_that_is_let_pass_is_closed_with_the_transport(upstream, model):
    upstream.script(model, reply(b"one ", Pause(3), b"two"))

    async def finish(transport):
        url = f"{upstream.url}/chat/completions"
        answer = await send(transport, url, model)
        await answer.read()
        answer.finish()
        connection = answer._connection
        assert connection.is_alive
        await transport.aclose()
        await asyncio.sleep(0.02)
        return connection.is_alive

    assert run(finish) is False
