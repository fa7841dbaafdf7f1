"""Passthrough forwards the upstream's bytes, and encodes the same message where they must differ."""

import json
import tracemalloc
from random import Random

import anthropic
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import (
    DIALECTS,
    Identity,
    Limits,
    MessageEnd,
    MessageStart,
    ReasoningDelta,
    ReasoningSignature,
    ReplyOptions,
    State,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UpstreamError,
    Usage,
    build_pipeline,
    next_state,
)
from formats.delivery import Delivery
from formats.native.markup_watch import MarkupWatch
from formats.native.rescue import CallRescue
from formats.pipeline import Pipeline
from tests.support.client_views import check_end, error_type, view
from tests.support.native_calls import TOOLS, answers, encoded, format_names
from tests.support.official_sdks import QUESTION, openai_client, streamed_by_anthropic
from tests.support.operator_formats import native_named, reading
from tests.support.strategies import messages, pieces
from tests.support.wire import byte_cuts, chunk, data, stream, text_from

IDENTITY = Identity(token="tok", message_id="own", model="own")
ODD = {
    "anthropic": b': a comment\r\n\r\nevent: odd\ndata: {"type":"odd",\ndata: "a":1.50}\n\n',
    "openai": b': OPENROUTER PROCESSING\n\n: \n\ndata: {"id":"chatcmpl-1","object":"chat.completion.chunk", "created":1700000000,"model":"m","choices":[], "odd":1.0}\n\n',
}
USAGE = {"prompt_tokens": 5, "completion_tokens": 2}


def pipeline(dialect, format_name="standard", **options):
    return build_pipeline(
        client=dialect,
        upstream=dialect,
        **reading(format_name),
        identity=IDENTITY,
        toolbox=TOOLS,
        **options,
    )


def relayed(dialect, parts, format_name="standard", **options):
    pipe = pipeline(dialect, format_name, **options)
    return b"".join([pipe.feed(part) for part in parts]) + pipe.close()


def encoding_pipeline(dialect, format_name):
    """Return a pipeline without passthrough."""
    native = native_named(format_name)
    return Pipeline(
        DIALECTS[dialect].decoder(Limits()),
        CallRescue(native, TOOLS) if native else MarkupWatch(),
        Delivery(Identity(token="tok"), TOOLS),
        DIALECTS[dialect].encoder(ReplyOptions()),
    )


def encoded_answer(dialect, body, format_name):
    pipe = encoding_pipeline(dialect, format_name)
    return pipe.feed(body) + pipe.close()


def client_view(body, dialect):
    received = view(body, dialect)
    received.names, received.usage = [], None
    return received


def cuts(body):
    """Return the body whole, split into events, and split at random."""
    whole, _, *cut = byte_cuts(body, 2)
    return [whole, *cut, [part + b"\n\n" for part in body.split(b"\n\n")]]


def _passes(events):
    """True for a complete message without markers: Hypothesis takes some from the source."""
    return isinstance(events[-1], MessageEnd) and not any(
        isinstance(event, TextDelta | ReasoningDelta) and "<|" in event.text for event in events
    )


@pytest.mark.parametrize("dialect", DIALECTS)
@given(
    format_name=format_names,
    events=messages().filter(_passes),
    crlf=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=40)
def test_an_answer_without_native_calls_passes_byte_for_byte_at_any_split(
    dialect, format_name, events, crlf, seed
):
    body = encoded(events, dialect)
    first, mark, rest = body.partition(b"\n\n")
    body = ODD[dialect] * (seed % 2) + first + mark + ODD[dialect] + rest
    if crlf:
        body = body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    before_end = body[: body.rindex(b"\n", 0, -4)]
    for parts in byte_cuts(body, 3):
        sent = relayed(dialect, parts, format_name)
        assert sent.startswith(before_end)
        # The terminator is the encoder's if it is not in the read that ends the message.
        assert sent.replace(b"\r\n", b"\n") == body.replace(b"\r\n", b"\n")


@pytest.mark.parametrize("dialect", DIALECTS)
@given(
    answer=answers,
    channel=st.sampled_from(["content", "reasoning"]),
    seed=st.integers(0, 9999),
)
@settings(max_examples=100)
def test_passthrough_means_the_same_to_the_client_as_encoding(dialect, answer, channel, seed):
    format_name, texts = answer
    random = Random(seed)
    text = "".join(texts)
    cut = pieces(text, [random.randrange(1000) for _ in range(random.randrange(9))])
    body = text_from(dialect, cut, channel)
    expected = client_view(encoded_answer(dialect, body, format_name), dialect)
    for parts in cuts(body):
        assert client_view(relayed(dialect, parts, format_name), dialect) == expected


@pytest.mark.parametrize("dialect", DIALECTS)
@given(
    answer=answers,
    events=messages(),
    data=st.data(),
)
@settings(max_examples=50)
def test_passthrough_means_the_same_with_structured_calls_and_signed_thinking(
    dialect, answer, events, data
):
    format_name, texts = answer
    for text in texts:
        places = [at for at in range(1, len(events)) if _is_between_calls(events, at)]
        kind = data.draw(st.sampled_from([TextDelta, ReasoningDelta]))
        at = data.draw(st.sampled_from(places))
        events = [*events[:at], *([kind(text)] if text else []), *events[at:]]
    body = encoded(events, dialect)
    expected = client_view(encoded_answer(dialect, body, format_name), dialect)
    for parts in cuts(body):
        assert client_view(relayed(dialect, parts, format_name), dialect) == expected


def _is_between_calls(events, at):
    state = State.START
    for event in events[:at]:
        state = next_state(state, event)
    return state is State.OPEN and not isinstance(events[at], ReasoningSignature)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(answer=answers)
@settings(max_examples=25)
def test_the_official_sdk_rebuilds_the_same_message(dialect, answer):
    format_name, texts = answer
    body = text_from(dialect, texts, "content")
    expected = rebuilt_by_sdk(encoded_answer(dialect, body, format_name), dialect)
    for parts in cuts(body):
        assert rebuilt_by_sdk(relayed(dialect, parts, format_name), dialect) == expected


def rebuilt_by_sdk(body, dialect):
    """Return the message as the dialect's SDK rebuilds it, or the name of its error."""
    try:
        if dialect == "anthropic":
            return streamed_by_anthropic(body).model_dump(exclude={"usage"})
        with openai_client(body).chat.completions.stream(model="m", messages=QUESTION) as answer:
            choice = answer.get_final_completion().choices[0]
    except (anthropic.APIStatusError, openai.APIError) as error:
        return type(error).__name__
    return choice.finish_reason, choice.message.content, choice.message.tool_calls


def reads(dialect, *texts, channel="content"):
    """Return a stream of these texts, one event per read."""
    body = text_from(dialect, texts, channel)
    return [part + b"\n\n" for part in body.split(b"\n\n")[:-1]]


KIMI = [
    "Looking",
    " <b>now",
    ". <|tool_calls",
    "_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>",
    '{"a":',
    " 1}",
    "<|tool_call_end|><|tool_calls_section_end|>",
]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_answer_is_encoded_from_the_first_difference_on(dialect):
    parts = reads(dialect, *KIMI)
    pipe = pipeline(dialect, "kimi")
    sent = [pipe.feed(part) for part in parts] + [pipe.close()]
    lead = 2 if dialect == "openai" else 4
    assert b"".join(sent[:lead]) == b"".join(parts[:lead])
    assert b"".join(sent[lead:]) != b"".join(parts[lead:])
    received = client_view(b"".join(sent), dialect)
    assert (received.text, received.calls) == (
        "Looking <b>now. ",
        [{"name": "ping", "arguments": {"a": 1}}],
    )
    assert len(b"".join(sent).split(b"Looking")) == 2
    bulk = relayed(dialect, [b"".join(parts)], "kimi")
    assert bulk.startswith(b"".join(parts[:lead]))
    assert client_view(bulk, dialect) == received


def test_encoded_events_continue_the_ids_of_the_bytes_before():
    names = {"id": "gen-7", "model": "vendor/m", "created": 1234567890}
    parts = [chunk({"content": text}, **names) for text in KIMI] + [chunk({}, "stop", **names)]
    body = relayed("openai", [*parts, b"data: [DONE]\n\n"], "kimi")
    for payload in body.decode().split("data: ")[1:-1]:
        received = json.loads(payload)
        assert {name: received[name] for name in names} == names
    with openai_client(body).chat.completions.stream(model="m", messages=QUESTION) as answer:
        completion = answer.get_final_completion()
    assert (completion.id, completion.model) == ("gen-7", "vendor/m")
    assert completion.choices[0].finish_reason == "tool_calls"
    assert completion.choices[0].message.content == "Looking <b>now. "


def test_block_indices_continue_after_blocks_of_unknown_types():
    events = [
        {"type": "message_start", "message": {"id": "msg_7", "content": [], "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": text}} for text in KIMI),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]  # fmt: skip
    parts = [b"event: %b\n" % event["type"].encode() + data(event) for event in events]
    message = streamed_by_anthropic(relayed("anthropic", parts, "kimi"))
    assert [block.type for block in message.content] == ["server_tool_use", "text", "tool_use"]
    assert (message.content[1].text, message.content[2].input) == ("Looking <b>now. ", {"a": 1})
    assert (message.id, message.stop_reason) == ("msg_7", "tool_use")


def test_the_usage_chunk_is_removed_unless_requested():
    usage = data({"id": "chatcmpl-1", "choices": [], "usage": USAGE})
    parts = [chunk({"content": "Hi"}, usage=None), chunk({}, "stop"), usage, b"data: [DONE]\n\n"]
    asked, not_asked = ReplyOptions(), ReplyOptions(include_usage=False)
    for cut in byte_cuts(b"".join(parts), 4):
        assert relayed("openai", cut, options=asked) == b"".join(parts)
        without = relayed("openai", cut, options=not_asked)
        assert without == b"".join(part for part in parts if part is not usage)
    beside = chunk({"content": "Hi"}, usage=USAGE) + chunk({}, "stop", usage=USAGE) + parts[-1]
    assert relayed("openai", [beside], options=not_asked) == beside


ERRORS = {
    "anthropic": b'event: error\ndata: {"type":"error", "error":{"type":"overloaded_error","message":"Full"}}\n\n',
    "openai": b'data: {"error": {"code":502 ,"message":"Full"},"choices":[]}\n\n',
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_event_of_the_upstream_ends_the_stream_as_an_error_of_the_gateway(dialect):
    first_part = reads(dialect, "Hello")[: 1 if dialect == "openai" else 3]
    for cut in byte_cuts(b"".join(first_part) + ERRORS[dialect], 3):
        sent = relayed(dialect, cut)
        assert sent.startswith(b"".join(first_part))
        assert sent.count(b"Full") == 1
        assert view(sent, dialect).error == error_type("overloaded_error", dialect)
        check_end(sent, dialect)


HALF_CALLS = {
    "anthropic": b'event: content_block_start\ndata: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"ping","input":{}}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\\"a\\":1"}}\n\n'
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":1}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    "openai": b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"ping","arguments":"{\\"a\\":1"}}]},"finish_reason":"tool_calls"}]}\n\n'
    b"data: [DONE]\n\n",
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_data_after_the_end_is_dropped(dialect):
    good = b"".join(reads(dialect, "Hello"))
    before_last, last = b"".join(reads(dialect, "Hello")[:-1]), reads(dialect, "Hello")[-1]
    junk = HALF_CALLS[dialect] + b"garbage \xff\n\n" + ERRORS[dialect]
    bodies = [good + junk]
    if dialect == "openai":  # the usage also ends its message
        bodies.append(before_last + data({"choices": [], "usage": USAGE}) + junk + last)
    for body in bodies:
        for parts in [*byte_cuts(body, 5), [good, body[len(good) :]], cuts(body)[-1]]:
            sent = relayed(dialect, parts)
            received = view(sent, dialect)
            assert (received.text, received.calls, received.error) == ("Hello", [], None)
            assert received.stop == view(good, dialect).stop
            if dialect == "openai":
                assert sent.rstrip().endswith(b"data: [DONE]")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nothing_passes_after_the_end_not_even_a_comment_or_a_repeated_end(dialect):
    good = reads(dialect, "Hello")
    repeated = b": bye\r\n\r\n" + good[-1] + b"data: [DONE]\n\n: that was all"
    assert relayed(dialect, [b"".join(good), repeated]) == b"".join(good)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_data_after_an_error_is_dropped(dialect):
    first_part = b"".join(reads(dialect, "Hello")[: 1 if dialect == "openai" else 3])
    for parts in byte_cuts(first_part + ERRORS[dialect] + HALF_CALLS[dialect], 5):
        sent = relayed(dialect, parts)
        assert sent == relayed(dialect, [first_part + ERRORS[dialect]])
        assert b"ping" not in sent
        check_end(sent, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_is_reported_wherever_it_appears_in_a_read(dialect):
    call = ToolCallStart("t", "ping"), ToolCallDelta('{"a":'), ToolCallDelta("1}"), ToolCallEnd()
    message_events = [
        MessageStart("m", "m"),
        TextDelta("Hello"),
        *call,
        MessageEnd(StopReason.TOOL_USE),
    ]
    events = [part + b"\n\n" for part in encoded(message_events, dialect).split(b"\n\n")[:-1]]
    for end in range(1, len(events) - 2):
        for start in range(end):
            read = b"".join(events[start:end]) + ERRORS[dialect] + HALF_CALLS[dialect]
            sent = relayed(dialect, [*events[:start], read])
            assert sent.count(b"Full") == 1, (start, end)
            assert b"ping" not in sent.partition(b"Full")[2]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("ending", [b"", b"event: x\ndata: {nonsense}\n\n", b"data: {"])
def test_a_truncated_answer_is_never_shown_as_complete(dialect, ending):
    first_part = reads(dialect, "Hello")[: 1 if dialect == "openai" else 3]
    sent = relayed(dialect, [*first_part, ending])
    assert sent.startswith(b"".join(first_part))
    received = view(sent, dialect)
    assert (received.text, received.stop, received.calls) == ("Hello", None, [])
    assert received.error


def test_a_failure_from_outside_ends_the_open_block_in_the_clients_dialect():
    pipe = pipeline("anthropic")
    first_part = b"".join(pipe.feed(part) for part in reads("anthropic", "Hello", "you")[:4])
    end = pipe.encode(pipe.fail(UpstreamError("the connection was lost")))
    names = view(first_part + end, "anthropic").names
    assert names[-3:] == ["content_block_stop", "error", "message_stop"]


def test_a_wrong_finish_reason_is_corrected_before_it_is_sent():
    call = {
        "index": 0,
        "id": "a",
        "type": "function",
        "function": {"name": "ping", "arguments": "{}"},
    }
    parts = [chunk({"tool_calls": [call]}), chunk({}, "stop"), b"data: [DONE]\n\n"]
    pipe = pipeline("openai")
    assert pipe.feed(parts[0]) == parts[0]
    assert pipe.feed(parts[1]) == b""
    end = pipe.feed(parts[2])
    assert b'"tool_calls"' in end
    assert b'"stop"' not in end


@pytest.mark.parametrize(
    "deltas",
    [
        [{"tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}],
        [{"tool_calls": [{"index": 3, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}],
        [{"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": {}}}]}],
        [{"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}],
        [{"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": text}}]} for text in ("{", "}")],
        [{"content": [{"type": "text", "text": "Hi"}]}],
    ],
)  # fmt: skip
def test_framing_that_strict_clients_reject_is_encoded_again(deltas):
    body = stream(*deltas, finish="tool_calls" if "tool_calls" in deltas[0] else "stop")
    with openai_client(relayed("openai", [body])).chat.completions.stream(
        model="m", messages=QUESTION
    ) as answer:
        message = answer.get_final_completion().choices[0].message
    assert message.content == "Hi" or [c.function.arguments for c in message.tool_calls] == ["{}"]
    assert view(relayed("openai", [body]), "openai").error is None


@pytest.mark.parametrize(
    "change",
    [
        (b"event: content_block_delta\n", b""),
        (b'"index":0', b'"index":1'),
        (b'"text":""', b'"text":"Oh. "'),
    ],
)
def test_an_anthropic_stream_that_claude_code_rejects_is_encoded_again(change):
    body = text_from("anthropic", ["Hello"], "content").replace(*change)
    sent = relayed("anthropic", [body])
    assert sent != body
    received = view(sent, "anthropic")
    assert received.text.endswith("Hello")
    assert received.stop == "end_turn"


def test_a_call_cut_by_the_token_limit_passes_unchanged():
    events = [
        MessageStart("msg_1", "m", Usage(input=1)),
        ToolCallStart("toolu_1", "f"),
        ToolCallDelta('{"a":'),
        ToolCallEnd(),
        MessageEnd(StopReason.MAX_TOKENS, usage=Usage(input=1, output=1)),
    ]
    body = encoded(events, "anthropic")
    assert relayed("anthropic", [part + b"\n\n" for part in body.split(b"\n\n")[:-1]]) == body
    broken = body.replace(b"max_tokens", b"tool_use")
    sent = relayed("anthropic", [part + b"\n\n" for part in broken.split(b"\n\n")[:-1]])
    received = view(sent, "anthropic")
    assert (received.calls, received.stop) == ([], None)
    assert received.error == "format_transformation_error"
    assert received.names.count("content_block_stop") == 0
    assert view(relayed("anthropic", [broken]), "anthropic").names.count("content_block_stop") == 0


def test_undecided_text_is_held_only_up_to_a_limit():
    text = '<tool_call>\n{"name": "ping", "arguments": {"b": "' + "x" * 4000
    parts = reads("openai", *text, channel="reasoning")[:-2]
    assert sum(map(len, parts)) > 600_000
    kept = pipeline("openai", "qwen")
    assert _held(kept, parts) < _held(encoding_pipeline("openai", "qwen"), parts) + 50_000
    assert not kept.is_passthrough


def _held(pipe, parts):
    tracemalloc.start()
    for part in parts:
        pipe.feed(part)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held
