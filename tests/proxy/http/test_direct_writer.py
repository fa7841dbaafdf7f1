"""Reads that are written directly to the client, and those that wait for the request's task."""

import asyncio
from types import SimpleNamespace
from typing import Any

import httptools
import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from formats import Identity, Limits, Toolbox, build_pipeline
from proxy.errors import ErrorCode
from proxy.http.direct_writer import DirectWriter
from proxy.serving import retry
from proxy.serving.attempt import StartedAnswer
from proxy.upstreams.connection import Connection
from tests.support.chat import chunk
from tests.support.relays import RESTART, make_relay

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
END = chunk({}, finish="stop")


class FakeConnection(Connection):
    """An upstream connection that the test feeds."""

    def __init__(self) -> None:
        super().__init__(lambda: None)
        self.is_open = True
        transport: Any = SimpleNamespace(is_closing=lambda: not self.is_open, abort=self.finish)
        self.connection_made(transport)
        self.head_received = asyncio.get_running_loop().create_future()
        self._is_complete = False
        self._parser = httptools.HttpResponseParser(self)
        self.data_received(HEAD)

    def receive(self, *parts: bytes) -> None:
        """Deliver parts in one read of the socket."""
        self.data_received(b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts))

    def finish(self) -> None:
        self.is_open = False


class FakeWriter:
    """A direct writer that keeps the parts."""

    is_open = True

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, part: bytes) -> None:
        self.parts.append(part)


def relaying(monkeypatch, script, *, ping_after=60, **deadlines):
    """Relay a stream whose upstream is `script`. Returns the parts that were written directly, those
    that the task sent, the exchange and the connection."""

    async def attempt(*_args, **_options):
        pipeline = build_pipeline(
            client="anthropic",
            upstream="openai",
            format_name="standard",
            identity=Identity(token="t", message_id="msg_t", model="m"),
            toolbox=Toolbox(()),
        )
        limits = {"idle_timeout": 60, "progress_timeout": 60, "total_timeout": 60, **deadlines}
        upstream = SimpleNamespace(name="u", headers=(), secrets=list, **limits)
        route = SimpleNamespace(upstream=upstream, limits=Limits())
        return StartedAnswer(
            route, pipeline, connection, pipeline.decode(chunk({"content": "one "}))
        )

    async def test():
        nonlocal connection
        connection, writer, parts = FakeConnection(), FakeWriter(), []
        relay = make_relay()
        relay._snapshot.ping_after = ping_after
        await relay.open(None, [])

        async def send():
            async for part in relay.stream(writer):
                parts.append(part)

        task = asyncio.create_task(send())
        while not parts:  # the text that has arrived with the head
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # the task waits for the next read
        await script(SimpleNamespace(**locals()))
        async with asyncio.timeout(60):
            await task
        return writer.parts, parts, relay._exchange, connection

    connection = None
    monkeypatch.setattr(retry, "attempt", attempt)
    route = SimpleNamespace(upstream=SimpleNamespace(name="u"), model="m")
    monkeypatch.setattr(retry, "resolve", lambda *_: route)
    return asyncio.run(test())


def test_a_read_is_written_before_any_task_runs(monkeypatch):
    async def script(stage):
        stage.connection.receive(chunk({"content": "two "}), chunk({"content": "three"}))
        assert len(stage.writer.parts) == 1
        assert b"two three" in stage.writer.parts[0]
        stage.connection.receive(b"data: {")
        assert len(stage.writer.parts) == 1
        stage.connection.receive(END)

    written, parts, exchange, connection = relaying(monkeypatch, script)
    assert [b"one" in part for part in parts] == [True]
    assert b"error" in written[-1]  # the split event was not valid JSON
    assert exchange.transfer.bytes_out == sum(map(len, written + parts))
    assert not connection.is_open


def test_the_end_of_a_message_ends_the_stream(monkeypatch):
    async def script(stage):
        stage.connection.receive(chunk({"content": "two"}), END, b"data: [DONE]\n\n")
        stage.relay.abort_with(RESTART)  # too late

    written, parts, exchange, connection = relaying(monkeypatch, script)
    assert len(parts) == len(written) == 1
    assert written[0].endswith(b'data: {"type":"message_stop"}\n\n')
    assert exchange.error is None
    assert exchange.answer.stop_reason == "end_turn"
    assert not connection.is_open


def test_reads_wait_for_the_task_while_the_client_is_not_reading(monkeypatch):
    async def script(stage):
        stage.writer.is_open = False
        stage.connection.receive(chunk({"content": "two"}))
        stage.connection.receive(chunk({"content": " three"}))
        while len(stage.parts) < 2:
            await asyncio.sleep(0)
        stage.writer.is_open = True
        stage.connection.receive(END, b"data: [DONE]\n\n")

    written, parts, exchange, _ = relaying(monkeypatch, script)
    assert len(parts) == 2
    assert b"two three" in parts[1]
    assert len(written) == 1
    assert exchange.error is None


def test_an_abort_and_a_lost_connection_are_reported_by_the_task(monkeypatch):
    async def abort(stage):
        stage.relay.abort_with(RESTART)
        stage.connection.receive(chunk({"content": "dropped"}))

    written, parts, exchange, connection = relaying(monkeypatch, abort)
    assert not written
    assert b"restarting" in parts[-1]
    assert not connection.is_open

    async def lose(stage):
        stage.connection.receive(chunk({"content": "two"}))
        stage.connection.connection_lost(None)

    written, parts, exchange, _ = relaying(monkeypatch, lose)
    assert b"two" in written[0]
    assert b"event: error" in parts[-1]
    assert exchange.error.code == ErrorCode.UPSTREAM_TRUNCATED


def test_pings_fill_silence_and_a_deadline_ends_an_answer_without_progress(monkeypatch):
    async def drip(stage):
        while stage.connection.is_open:
            stage.connection.receive(b": still there\n\n")
            await asyncio.sleep(0.02)

    limits = {"ping_after": 0.05, "progress_timeout": 0.4}
    written, parts, exchange, _ = relaying(monkeypatch, drip, **limits)
    assert b"event: ping" in parts[1]
    assert sum(part.count(b"event: error") for part in written + parts) == 1
    assert exchange.error.code == ErrorCode.UPSTREAM_NO_PROGRESS


def test_an_unexpected_error_in_a_direct_write_is_logged_and_ends_the_stream(monkeypatch, caplog):
    async def script(stage):
        monkeypatch.setattr(stage.relay._answer.pipeline, "decode", lambda _: 1 // 0)
        stage.connection.receive(chunk({"content": "two"}))

    written, parts, exchange, connection = relaying(monkeypatch, script)
    assert not written
    assert b"event: error" in parts[-1]
    assert exchange.error.code == ErrorCode.INTERNAL_ERROR
    assert "ZeroDivisionError" in caplog.text
    assert not connection.is_open


def test_nothing_is_written_to_a_client_that_disconnected(monkeypatch):
    async def script(stage):
        stage.task.cancel()
        stage.connection.receive(chunk({"content": "two"}))
        assert not stage.writer.parts

    with pytest.raises(asyncio.CancelledError):
        relaying(monkeypatch, script)


def cycle_on(written):
    transport = SimpleNamespace(write=written.append, is_closing=lambda: False, close=None)
    return RequestResponseCycle(
        scope={"method": "POST"},
        transport=transport,
        flow=FlowControl(transport),
        logger=None,
        access_logger=None,
        access_log=False,
        default_headers=[],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=True,
        on_response=lambda: None,
    )


def test_a_direct_writer_frames_like_the_server_and_closes_with_it():
    async def test():
        written = []
        cycle = cycle_on(written)
        writer = DirectWriter(cycle)
        assert not writer.is_open  # the response has not started
        await cycle.send({"type": "http.response.start", "status": 200, "headers": []})
        part = b"x" * 300
        await cycle.send({"type": "http.response.body", "body": part, "more_body": True})
        assert writer.is_open
        writer.write(part)
        assert written[-1] == written[-2]
        cycle.flow.pause_writing()
        assert not writer.is_open
        cycle.flow.resume_writing()
        assert writer.is_open
        cycle.disconnected = True
        assert not writer.is_open

        whole = cycle_on([])
        headers = [(b"content-length", b"3")]
        await whole.send({"type": "http.response.start", "status": 200, "headers": headers})
        assert not DirectWriter(whole).is_open

    asyncio.run(test())
