"""Recorded answers with calls, cut at every byte, never give a runnable incomplete call.

A truncated answer is an error with a reason; an answer cut by the token limit ends with
`max_tokens`. A stream may also end properly, with a finish reason, inside a call in the text.
"""

import json

import pytest

from formats import (
    DIALECTS,
    AnswerFault,
    MessageEnd,
    MessageFailed,
    MessageStart,
    StopReason,
    TextDelta,
    Toolbox,
    ToolCallEnd,
    build_pipeline,
    collect,
)
from formats.conversation import ToolCall
from tests.support.client_views import check_end, view
from tests.support.native_calls import KIMI_LOG, write_call
from tests.support.upstream_answers import Call, document
from tests.support.upstream_answers import stream as upstream_stream
from tests.support.wire import (
    IDENTITY,
    OPTIONS,
    anthropic_stream,
    decode,
    event_reads,
    relay,
    stream,
)

ARGUMENTS = {"harbor": "Tromsø — 🌊", "days": [1, {"deep": None}], "note": 'a "quoted" \\ word'}
CALLS = [Call("get_tide", ARGUMENTS, "call_1"), Call("get_tide", {"harbor": "Bodø"}, "call_2")]
STREAMS = {
    dialect: b"".join(upstream_stream(dialect, "Let me see. ", CALLS)) for dialect in DIALECTS
}
ENDED = {
    dialect: b"".join(upstream_stream(dialect, "Oh.", [Call("f", {"a": 1}, "call_1")]))
    for dialect in DIALECTS
}
END = {"anthropic": "tool_use", "openai": "tool_calls"}
FORMATS = ("kimi", "qwen", "deepseek", "harmony", "mistral", "phi", "granite", "llama", "lfm")


def calls_of(events):
    return [json.loads(p.arguments) for p in collect(events).parts if isinstance(p, ToolCall)]


def cut_everywhere(body, upstream, format_name="standard"):
    """Yield the events of every prefix of an answer."""
    for end in range(len(body)):
        yield end, decode(body[:end], upstream=upstream, format_name=format_name)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_u9_a_stream_cut_at_any_byte_is_an_error_or_complete(dialect):
    body = STREAMS[dialect]
    whole = calls_of(decode(body, upstream=dialect))
    assert whole == [call.arguments for call in CALLS]
    ends = 0
    for end, events in cut_everywhere(body, dialect):
        last = events[-1]
        delivered = calls_of(events)
        assert delivered == whole[: len(delivered)], end
        if isinstance(last, MessageEnd):  # only data after the finish reason is missing
            ends += 1
            assert delivered == whole
            assert last.stop_reason is StopReason.TOOL_USE
        else:
            assert isinstance(last, MessageFailed)
            # The end of input ends the last event, which may be incomplete.
            assert last.fault in (
                AnswerFault.TRUNCATED,
                AnswerFault.BAD_CHUNK,
                AnswerFault.BAD_UTF8,
            ), end
    assert 0 < ends < 400


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_u9_a_truncated_stream_never_has_a_stop_reason(dialect, client):
    body = STREAMS[dialect]
    for end in range(0, len(body), 7):
        pipeline = build_pipeline(
            client=client, upstream=dialect, format_name="standard", identity=IDENTITY
        )
        sent = pipeline.feed(body[:end])
        if pipeline.done:
            break
        last = pipeline.decode_end()
        sent += pipeline.encode(last)
        if isinstance(last[-1], MessageEnd):
            continue
        received = view(sent, client)
        assert received.error
        assert received.stop is None
        assert b"[DONE]" not in sent


def read_in(dialect, body, size):
    """Return the reads of a stream: whole (0), events (1), or bytes at its end (2)."""
    if size == 0:
        return [body]
    end = len(body) - 40 if size == 2 else len(body)
    blank = b"\r\n\r\n" if b"\r" in body else b"\n\n"
    *events, last = body[:end].split(blank)
    rest = last + body[end:]
    return [*(event + blank for event in events), *(rest[at : at + 1] for at in range(len(rest)))]


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_w2_a_stream_cut_at_any_byte_has_exactly_one_legal_end_or_an_error(dialect, client, ending):
    """W2: what the upstream leaves out at the end is written, or the stream ends in an error."""
    body = ENDED[dialect].replace(b"\n", ending)
    outcomes = set()
    # Every byte of the end; before it, steps of a prime try every position in an event.
    for end in [*range(0, len(body) - 300, 13), *range(len(body) - 300, len(body) + 1)]:
        for size in {0, end % 3}:
            sent = relay(read_in(dialect, body[:end], size), client=client, upstream=dialect)
            sent = sent.replace(b"\r\n", b"\n")
            check_end(sent, client)
            received = view(sent, client)
            assert (received.error is None) == (received.stop == END[client]), end
            assert not received.calls or received.calls == [{"name": "f", "arguments": {"a": 1}}]
            assert received.error or received.calls, end
            outcomes.add(received.error)
    assert None in outcomes
    assert len(outcomes) > 1


@pytest.mark.parametrize("client", DIALECTS)
def test_w2_a_block_that_never_ends_is_ended(client):
    """W2: Claude Code drops a block that has not ended."""
    stop = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    body = anthropic_stream(
        [MessageStart("m", "m"), TextDelta("Hello"), MessageEnd(StopReason.END_TURN)]
    )
    assert stop in body
    for reads in ([body.replace(stop, b"")], event_reads(body.replace(stop, b""))):
        sent = relay(reads, client=client, upstream="anthropic")
        check_end(sent, client)
        assert view(sent, client).text == "Hello"
        assert (stop in sent) == (client == "anthropic")


def test_u9_a_recorded_kimi_stream_cut_at_any_byte_gives_only_its_own_calls():
    whole = calls_of(decode(KIMI_LOG, format_name="kimi"))
    assert len(whole) == 2
    # 211 is prime, so that every position in a chunk is tried.
    for end in range(1, len(KIMI_LOG), 211):
        events = decode(KIMI_LOG[:end], format_name="kimi")
        delivered = calls_of(events)
        assert delivered == whole[: len(delivered)]
        assert isinstance(events[-1], MessageFailed) or delivered == whole


@pytest.mark.parametrize("format_name", FORMATS)
def test_u14_a_call_in_text_cut_by_the_token_limit_at_any_character_ends_in_max_tokens(format_name):
    text = "Let me see. " + write_call(format_name, "get_tide", ARGUMENTS)
    for end in range(1, len(text)):
        events = decode(stream({"content": text[:end]}, finish="length"), format_name=format_name)
        last = events[-1]
        if isinstance(last, MessageEnd):
            assert last.stop_reason is StopReason.MAX_TOKENS, text[:end]
        delivered = calls_of(events)
        assert delivered in ([], [ARGUMENTS])
        # A delivered call may lack only its end markers.
        assert not delivered or json.dumps(ARGUMENTS) in text[:end] or "<parameter" in text


@pytest.mark.parametrize("finish", ["stop", "tool_calls", None])
@pytest.mark.parametrize("format_name", FORMATS)
def test_u15_a_call_in_text_left_open_at_any_character_is_an_error_and_no_text(format_name, finish):
    text = write_call(format_name, "get_tide", ARGUMENTS)
    commits = text.index("get_tide") + len("get_tide") + 45  # where it cannot be mistaken for text
    for end in range(commits, len(text) - 60):
        events = decode(stream({"content": text[:end]}, finish=finish), format_name=format_name)
        if calls_of(events) == [ARGUMENTS]:
            break  # only its end markers are missing
        last = events[-1]
        assert isinstance(last, MessageFailed), text[:end]
        assert not any(isinstance(event, ToolCallEnd) for event in events)
    else:
        assert end > commits


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_whole_answer_cut_at_any_byte_is_an_error(dialect):
    body = document(dialect, "Let me see. ", CALLS)
    for end in range(1, len(body)):
        pipeline = build_pipeline(
            client=dialect,
            upstream=dialect,
            format_name="standard",
            identity=IDENTITY,
            toolbox=Toolbox(()),
            options=OPTIONS,
        )
        [failed] = pipeline.decode_whole(body[:end])
        assert isinstance(failed, MessageFailed)
        assert failed.fault in (AnswerFault.BAD_CHUNK, AnswerFault.BAD_UTF8)
