"""The eight laws, over every registered dialect and format."""

import json
import re
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from formats import (
    AUTO,
    DIALECTS,
    FailureKind,
    MessageEnd,
    MessageFailed,
    MessageStart,
    State,
    StopReason,
    ToolCallEnd,
    Usage,
    build_pipeline,
    collect,
    merge_deltas,
    next_state,
)
from formats.errors import TEMPORARY
from tests.support.native_calls import (
    CALLS,
    NATIVE,
    TOOLS,
    answers,
    encoded,
    format_names,
    garbage,
    native_names,
    tools_for,
    whole,
    write_call,
)
from tests.support.operator_formats import reading
from tests.support.strategies import arguments, messages, names, pieces, prose
from tests.support.wire import (
    CREATED,
    IDENTITY,
    byte_cuts,
    decode,
    event_reads,
    stream,
    text_from,
)


@pytest.mark.parametrize("upstream", DIALECTS)
@given(
    answer=answers,
    channel=st.sampled_from(["content", "reasoning"]),
    seed=st.integers(),
)
@settings(max_examples=150)
def test_1_chunking_any_split_gives_the_same_events(upstream, answer, channel, seed):
    format_name, texts = answer
    text = "".join(texts)
    random = Random(seed)
    cut = pieces(text, [random.randrange(1000) for _ in range(random.randrange(6))])
    unsplit = merge_deltas(
        decode(
            text_from(upstream, [text], channel),
            upstream=upstream,
            format_name=format_name,
            tools=TOOLS,
        )
    )
    for parts in (cut, list(text)):
        body = text_from(upstream, parts, channel)
        got = decode(event_reads(body), upstream=upstream, format_name=format_name, tools=TOOLS)
        assert merge_deltas(got) == unsplit


@pytest.mark.parametrize("dialect", DIALECTS)
@given(events=messages())
@settings(max_examples=12)
def test_1_chunking_any_split_of_the_bytes_gives_the_same_events(dialect, events):
    body = encoded(events, dialect)
    whole = merge_deltas(decode(body, upstream=dialect))
    for parts in byte_cuts(body, 2):
        assert merge_deltas(decode(parts, upstream=dialect)) == whole


@pytest.mark.parametrize("upstream", DIALECTS)
@given(
    format_name=format_names,
    body=st.binary(max_size=80)
    | st.lists(garbage | whole, max_size=4).map(
        lambda texts: stream(*({"content": text} for text in texts))
    )
    | st.lists(
        st.dictionaries(
            st.sampled_from(["content", "tool_calls", "reasoning"]),
            st.none()
            | garbage
            | st.lists(
                st.dictionaries(
                    st.sampled_from(["index", "id", "function"]),
                    st.none()
                    | st.integers(0, 3)
                    | garbage
                    | st.fixed_dictionaries({"arguments": garbage, "name": garbage}),
                )
            ),
        ),
        max_size=5,
    ).map(lambda deltas: stream(*deltas)),
)
@settings(max_examples=80)
def test_2_order_every_output_follows_the_event_table(upstream, format_name, body):
    state = State.START
    for event in decode(body, upstream=upstream, format_name=format_name, tools=TOOLS):
        state = next_state(state, event)
        # The pipeline turns an illegal event into an internal failure.
        assert not (isinstance(event, MessageFailed) and event.kind is FailureKind.INTERNAL)
    assert state is State.DONE


@pytest.mark.parametrize("dialect", DIALECTS)
@given(events=messages())
@settings(max_examples=20)
def test_3_round_trip_decoding_encoded_events_returns_the_events(dialect, events):
    start = MessageStart("msg_1", "m", Usage(input=1, output=0))
    if dialect == "openai":
        start = MessageStart("msg_1", "m", created=CREATED)
    events = [start, *events[1:]]
    if isinstance(events[-1], MessageEnd) and dialect == "anthropic":
        end = events[-1]
        events[-1] = MessageEnd(end.stop_reason, usage=start.usage.updated(end.usage))
    pipeline = build_pipeline(
        client=dialect, upstream=dialect, format_name="standard", identity=IDENTITY
    )
    got = [*pipeline.decode(encoded(events, dialect)), *pipeline.decode_end()]
    if isinstance(failed := events[-1], MessageFailed):
        if dialect == "openai":
            # OpenAI has no end of a call: only a later event shows that one is complete.
            events = [event for event in events if not isinstance(event, ToolCallEnd)]
            got = [event for event in got if not isinstance(event, ToolCallEnd)]
        # Faults that are not the client's have one name in a stream: one that clients retry.
        if dialect == "openai" and failed.kind in TEMPORARY | {FailureKind.TRANSFORMATION}:
            events[-1] = MessageFailed(FailureKind.UPSTREAM, failed.message)
        elif dialect == "anthropic" and failed.kind in TEMPORARY:
            events[-1] = MessageFailed(FailureKind.OVERLOADED, failed.message)
    assert merge_deltas(got) == merge_deltas(events)


def test_every_native_format_is_covered_by_the_laws():
    assert CALLS.keys() == set(NATIVE)


@pytest.mark.parametrize("finish", ["stop", "length", "tool_calls"])
@given(
    format_name=native_names,
    name=names,
    given_arguments=arguments,
    cut=st.integers(0, 10_000),
)
@settings(max_examples=100)
def test_4_truncation_a_cut_call_is_never_listed_as_complete(
    format_name, finish, name, given_arguments, cut
):
    text = write_call(format_name, name, given_arguments)
    head = text[: cut % len(text)]
    tools = tools_for(format_name, name)
    events = decode(stream({"content": head}, finish=finish), format_name=format_name, tools=tools)
    assert isinstance(events[-1], MessageEnd | MessageFailed)
    calls = [part for part in collect(events).parts if hasattr(part, "arguments")]
    if calls:  # only end markers may be missing
        assert json.loads(calls[0].arguments) == given_arguments
    elif not isinstance(events[-1], MessageFailed):
        assert events[-1].stop_reason is not StopReason.TOOL_USE


@pytest.mark.parametrize("dialect", DIALECTS)
@given(events=messages(), cut=st.integers(0, 100_000))
@settings(max_examples=20)
def test_4_truncation_a_cut_stream_ends_in_an_error_or_is_complete(dialect, events, cut):
    body = encoded(events, dialect)
    got = decode(body[: cut % len(body)], upstream=dialect)
    assert isinstance(got[-1], MessageEnd | MessageFailed)
    if isinstance(got[-1], MessageEnd):
        assert merge_deltas(got)[1:-1] == merge_deltas(decode(body, upstream=dialect))[1:-1]
    whole = collect(decode(body, upstream=dialect)).parts
    for part in collect(got).parts:
        if hasattr(part, "arguments"):
            assert part in whole


@pytest.mark.parametrize("upstream", DIALECTS)
@given(
    format_name=format_names,
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<✿⟦"))),
)
@settings(max_examples=100)
def test_5_identity_text_without_markers_passes_unchanged(upstream, format_name, texts):
    assume("".join(texts))
    reply = collect(
        decode(text_from(upstream, texts, "content"), upstream=upstream, format_name=format_name)
    )
    assert [part.text for part in reply.parts] == ["".join(texts)]
    assert reply.failure is None


@given(format_name=format_names, text=garbage)
@settings(max_examples=100)
def test_5_identity_text_in_backticks_is_never_a_call(format_name, text):
    assume("<" in text and "✿" not in text)
    quoted = re.sub(r"(?=[<\[⟦])", "`", text)
    reply = collect(decode(stream({"content": quoted}), format_name=format_name, tools=TOOLS))
    assert [part.text for part in reply.parts] == [quoted]


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
@given(format_name=native_names, before=prose, name=names, given_arguments=arguments)
@settings(max_examples=50)
def test_7_matrix_every_cell_gives_the_same_message(
    client, upstream, format_name, before, name, given_arguments
):
    assume(not set("<`✿⟦") & set(before) and before.strip())
    if format_name == AUTO:  # in a line that Markdown quotes, a call is text
        assume("~~~" not in before)
        before += "\n"
    text = before + write_call(format_name, name, given_arguments)
    pipeline = build_pipeline(
        client=client,
        upstream=upstream,
        **reading(format_name),
        identity=IDENTITY,
        toolbox=tools_for(format_name, name),
    )
    body = pipeline.feed(text_from(upstream, list(text), "content")) + pipeline.close()
    reply = collect(decode(body, upstream=client))
    assert [type(part).__name__ for part in reply.parts] == ["Text", "ToolCall"]
    assert reply.parts[0].text == before
    assert reply.parts[1].id == f"call_{IDENTITY.token}_1"
    assert reply.parts[1].name == name
    assert json.loads(reply.parts[1].arguments) == given_arguments
    assert reply.stop_reason is StopReason.TOOL_USE
