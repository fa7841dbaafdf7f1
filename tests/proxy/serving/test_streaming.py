"""Streaming over time: bytes as they arrive, pings during silence, disconnects and drains."""

import re
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.chat import END, ask, chunk, error_of, read, reply, stream
from tests.support.gateway import KEY, Gateway
from tests.support.metrics import scrape, value
from tests.support.raw_client import start_request
from tests.support.scripted_upstream import Pause, whole
from tests.support.waiting import wait_for


def events_with_times(client, body):
    """Return the names of a stream's events, each with the seconds since the request."""
    start = time.monotonic()
    seen = []
    with client.stream("POST", "/v1/messages", json=body) as response:
        status_at = time.monotonic() - start
        for line in response.iter_lines():
            if line.startswith("event: "):
                seen.append((line[7:], time.monotonic() - start))
    return response, status_at, seen


@pytest.mark.realtime
def test_bytes_are_sent_as_they_arrive(client, upstream, model):
    parts = [chunk({"content": "one"}), Pause(0.4), chunk({"content": "two"}), Pause(0.4), END]
    upstream.script(model, reply(*parts))
    _, _, seen = events_with_times(client, ask(model, stream=True))
    deltas = [at for name, at in seen if name == "content_block_delta"]
    assert deltas[0] < 0.35
    assert 0.35 < deltas[1] < 0.75


@pytest.mark.realtime
def test_one_read_of_the_upstream_is_one_write_to_the_client(gateway, upstream, model):
    burst = b"".join(chunk({"content": f"{n} "}) for n in range(50))
    upstream.script(model, reply(chunk({"content": "first"}), Pause(0.3), burst, Pause(0.3), END))
    with start_request(gateway, ask(model, stream=True)) as connection:
        received = b""
        while b"message_stop" not in received:
            received += connection.recv(65536)
    # HTTP chunks with deltas: the first text, and the burst as one.
    assert received.count(b'"text_delta"') == 2


def test_bytes_after_an_early_end_are_counted(gateway, client, upstream, model):
    answer = chunk({"content": "Hello"}) + END + b": %b\n\n" % (b"z" * 30_000)
    upstream.script(model, reply(answer))
    response = client.post("/v1/messages", json=ask(model, stream=True))
    assert b"zzz" not in response.content
    assert gateway.exchange(response)["bytes_upstream"] == len(answer)


def test_the_status_is_sent_only_when_the_answer_has_started(client, upstream, model):
    announced = [chunk({"role": "assistant", "content": ""}), Pause(0.05)]
    failed = b'data: {"error":{"message":"overloaded","code":503}}\n\n'
    upstream.script(model, reply(*announced, failed))
    response = client.post("/v1/messages", json=ask(model, stream=True))
    assert error_of(response)[0] == 529


@pytest.mark.realtime
def test_a_stream_from_a_silent_upstream_is_opened_and_kept_alive(client, upstream, model):
    upstream.script(model, [Pause(2.6), *reply(stream({"content": "at last"}))])
    response, status_at, seen = events_with_times(client, ask(model, stream=True))
    assert response.status_code == 200
    assert 1.4 < status_at < 2.2  # open_after is 1.5 s here
    names = [name for name, _ in seen]
    assert names[0] == "ping"
    assert names.index("message_start") >= 2
    assert names[-1] == "message_stop"


def test_a_failure_after_the_stream_was_opened_is_an_event(client, upstream, model):
    upstream.script(model, [Pause(2.0), *reply(b'{"error":{"message":"no"}}', status=500)])
    seen = read(client.post("/v1/messages", json=ask(model, stream=True)))
    assert (seen.error, seen.names[-2:]) == ("overloaded_error", ["error", "message_stop"])
    assert set(seen.names[:-2]) == {"ping"}


@pytest.mark.realtime
def test_pings_are_sent_during_silence(client, upstream, model):
    comments = [b": still thinking\n\n", Pause(0.3)] * 6
    upstream.script(model, reply(chunk({"content": "one"}), *comments, END))
    _, _, seen = events_with_times(client, ask(model, stream=True))
    pings = [at for name, at in seen if name == "ping"]
    assert 2 <= len(pings) <= 4  # ping_after is 0.5 s here, comments do not reach the client
    assert seen[-1][0] == "message_stop"


def test_an_answer_that_falls_silent_for_too_long_fails(gateway, client, upstream):
    gateway.edit(
        "u = Upstream.objects.create(name='slow', idle_timeout=1, first_byte_timeout=1,"
        f" progress_timeout=1, base_url={upstream.url!r})\n"
        "ModelRoute.objects.create(pattern='slow-*', upstream=u)"
    )
    script = upstream.script("slow-body", reply(chunk({"content": "one"}), Pause(20)))
    seen = read(client.post("/v1/messages", json=ask("slow-body", stream=True)))
    assert (seen.text, seen.error) == ("one", "overloaded_error")
    wait_for(lambda: script.last.closed_at)
    upstream.script("slow-start", [Pause(20)])
    response = client.post("/v1/messages", json=ask("slow-start", stream=True))
    assert error_of(response)[:2] == (504, "timeout_error")
    assert response.headers["x-athena-error"] == "first_byte_timeout"
    upstream.script(
        "slow-comments", reply(chunk({"content": "one"}), *[b": alive\n\n", Pause(0.2)] * 50)
    )
    seen = read(client.post("/v1/messages", json=ask("slow-comments", stream=True)))
    assert (seen.text, seen.error) == ("one", "overloaded_error")
    upstream.script("slow-event", reply(b": nothing\n\n", Pause(20)))
    response = client.post("/v1/messages", json=ask("slow-event"))
    assert response.headers["x-athena-error"] == "first_byte_timeout"


@pytest.mark.realtime
@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("has_begun", [True, False])
def test_a_disconnect_closes_the_upstream_connection_within_a_second(
    gateway, upstream, model, streaming, has_begun
):
    answer = reply(chunk({"content": "one"}), Pause(20)) if has_begun else [Pause(20)]
    script = upstream.script(model, answer)
    connection = start_request(gateway, ask(model, stream=streaming))
    wait_for(lambda: script.requests)
    if streaming and has_begun:
        assert b"200 OK" in connection.recv(65536)
    else:
        time.sleep(0.3)  # nothing shows that the gateway waits for the upstream
    left_at = time.monotonic()
    connection.close()
    closed_at = wait_for(lambda: script.last.closed_at)
    assert closed_at - left_at < 1


def test_a_disconnect_from_a_silent_stream_closes_the_upstream_connection(gateway, upstream, model):
    script = upstream.script(model, [Pause(20)])
    connection = start_request(gateway, ask(model, stream=True))
    assert b"200 OK" in connection.recv(65536)
    connection.close()
    wait_for(lambda: script.last.closed_at)


def test_the_connection_to_the_upstream_is_kept_for_the_next_request(client, upstream, model):
    """It rests for 50 ms before its reuse, so the first requests may use several connections."""
    script = upstream.script(model, reply(stream({"content": "Hi"})))

    def reused():
        client.post("/v1/messages", json=ask(model, stream=True))
        return len({request.peer for request in script.requests}) < len(script.requests)

    wait_for(reused)


@pytest.fixture
def own_gateway(upstream, tmp_path):
    gateway = Gateway(
        tmp_path, OPENROUTER_API_KEY="x" * 20, OPENROUTER_BASE_URL=upstream.url
    ).start()
    gateway.edit(
        "s = GatewaySettings.objects.get(); s.drain_time = 1.5; s.ping_after = 5; s.save()"
    )
    yield gateway
    if gateway.process.poll() is None:
        gateway.process.kill()
        gateway.process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopping_lets_open_streams_finish(own_gateway, upstream, model, number):
    upstream.script(
        model, reply(chunk({"content": "one"}), Pause(1), chunk({"content": "two"}), END)
    )
    with start_request(own_gateway, ask(model, stream=True)) as connection:
        received = connection.recv(65536)
        own_gateway.process.send_signal(number)
        while part := connection.recv(65536):
            received += part
    assert b'"two"' in received
    assert b"message_stop" in received
    assert own_gateway.process.wait(60) == 0
    assert "Athena has stopped." in own_gateway.log


def test_a_stream_that_outlasts_the_drain_time_ends_in_an_error(own_gateway, upstream, model):
    upstream.script(model, reply(chunk({"content": "one"}), Pause(30)))
    with start_request(own_gateway, ask(model, stream=True)) as connection:
        received = connection.recv(65536)
        own_gateway.process.send_signal(signal.SIGTERM)
        while part := connection.recv(65536):
            received += part
    assert b"overloaded_error" in received
    assert b"restarting" in received
    assert own_gateway.process.wait(60) == 0
    assert "Traceback" not in own_gateway.log


def test_no_client_ever_gets_the_answer_of_another(gateway, upstream, model):
    """Answers that end in every way share upstream connections, and each names its request."""

    second = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n<another>"

    def answer(number):
        text = b"".join(chunk({"content": f"<{number}>"}) for _ in range(20))
        ends = [
            reply(text, END),
            reply(text, Pause(0.05), END, b"data: after the end\n\n"),
            reply(text, END, headers=["content-encoding: br"]),
            whole({"error": {"message": f"<{number}>"}}, status=400),
            [*reply(text, END, ends=False), b"0\r\n\r\n" + second],
        ]
        return ends[number % len(ends)]

    def ask_for(number):
        name = f"{model}-{number}"
        upstream.script(name, answer(number))
        with start_request(gateway, ask(name, stream=number % 3 > 0)) as connection:
            if number % 4 == 0:  # disconnects without reading its answer
                time.sleep(number % 7 / 100)
                return set()
            received = b""
            while not received.endswith((b"0\r\n\r\n", b'"}', b"}}")):
                received += (part := connection.recv(65536))
                assert part
            return set(re.findall(rb"<(\w+)>", received)) - {b"%d" % number}

    with ThreadPoolExecutor(20) as pool:
        assert set().union(*pool.map(ask_for, range(300))) == set()


def test_a_request_that_is_still_being_sent_does_not_delay_a_stop(own_gateway):
    with socket.create_connection(("127.0.0.1", own_gateway.port), timeout=60) as connection:
        head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\n"
        connection.sendall(f"{head}content-length: 100\r\n\r\n{{".encode())
        wait_for(lambda: value(scrape(own_gateway.url), "athena_held_places") == 1)
        own_gateway.process.send_signal(signal.SIGTERM)
        assert b" 503 " in connection.recv(65536)
    assert own_gateway.process.wait(60) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("streaming", [True, False])
def test_a_second_signal_ends_the_drain_time(own_gateway, upstream, model, number, streaming):
    own_gateway.edit(
        "s = GatewaySettings.objects.get(); s.drain_time = 60; s.save()\n"
        "ConfigurationVersion.advance()"
    )
    script = upstream.script(model, reply(chunk({"content": "one"}), Pause(60)))
    with start_request(own_gateway, ask(model, stream=streaming)) as connection:
        wait_for(lambda: script.requests)
        # Twice at once, as from a terminal and a supervisor.
        own_gateway.process.send_signal(number)
        own_gateway.process.send_signal(number)
        time.sleep(1.2)  # signals within a second count as one
        assert own_gateway.process.poll() is None
        own_gateway.process.send_signal(number)
        received = b""
        while part := connection.recv(65536):
            received += part
    assert b"restarting" in received
    assert own_gateway.process.wait(60) == 0
    assert "Traceback" not in own_gateway.log
