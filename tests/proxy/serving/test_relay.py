"""Races between a relay and its upstream that a client cannot trigger on purpose."""

import asyncio
from types import SimpleNamespace

import pytest

from formats import Identity, Limits, Toolbox, build_pipeline
from proxy.errors import ErrorCode
from proxy.models import Outcome
from proxy.serving import retry
from proxy.serving.attempt import StartedAnswer
from tests.support.chat import chunk
from tests.support.relays import RESTART, make_relay


class EndlessAnswer:
    """An answer that always has more data, so that a read never waits."""

    is_open = True

    async def read(self, take=None) -> bytes:
        await asyncio.sleep(0)
        return chunk({"content": "more "})

    def interrupt_read(self) -> None:
        """No read is waiting."""

    def finish(self) -> None:
        self.is_open = False

    abort = finish


@pytest.fixture
def answer(monkeypatch):
    answer = EndlessAnswer()

    async def attempt(*_args, **_options):
        await asyncio.sleep(0.02)  # longer than `open(within=0)` waits
        pipeline = build_pipeline(
            client="anthropic",
            upstream="openai",
            format_name="standard",
            identity=Identity(token="t", message_id="msg_t", model="m"),
            toolbox=Toolbox(()),
        )
        upstream = SimpleNamespace(
            name="u",
            idle_timeout=60,
            progress_timeout=60,
            total_timeout=60,
            headers=(),
            secrets=list,
        )
        route = SimpleNamespace(upstream=upstream, limits=Limits())
        return StartedAnswer(route, pipeline, answer, [])

    monkeypatch.setattr(retry, "attempt", attempt)
    route = SimpleNamespace(upstream=SimpleNamespace(name="u"), model="m")
    monkeypatch.setattr(retry, "resolve", lambda *_: route)
    return answer


def test_an_answer_that_starts_as_the_client_disconnects_is_closed(answer):
    registry = set()

    async def test():
        relay = make_relay(registry)
        await relay.open(None, [], within=0)
        await asyncio.wait([relay._opening])  # the answer has started and was not read
        relay.close()

    asyncio.run(test())
    assert not answer.is_open
    assert not registry


def test_an_answer_that_never_pauses_can_be_aborted(answer):
    async def test():
        relay, parts = make_relay(), []
        await relay.open(None, [])
        async for part in relay.stream():
            parts.append(part)
            if len(parts) == 3:
                relay.abort_with(RESTART)
            assert len(parts) < 9
        return parts

    parts = asyncio.run(test())
    assert b"restarting" in parts[-1]
    assert not answer.is_open


def test_an_internal_error_is_not_blamed_on_the_upstream(answer, monkeypatch):
    async def test():
        relay, parts = make_relay(), []
        await relay.open(None, [])
        monkeypatch.setattr(relay._answer.pipeline, "decode", lambda _: 1 // 0)
        async for part in relay.stream():
            parts.append(part)
        return relay._exchange, parts

    exchange, parts = asyncio.run(test())
    assert b"event: error" in parts[-1]
    assert (exchange.error.code, exchange.error.source) == (ErrorCode.INTERNAL_ERROR, "gateway")
    assert exchange.outcome == Outcome.GATEWAY_ERROR
