"""With limits of any size, every answer ends in an event: no error escapes the pipeline."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import (
    DIALECTS,
    AnswerFault,
    Limits,
    MessageFailed,
    State,
    TextDelta,
    build_pipeline,
    next_state,
)
from tests.support.client_views import check_end
from tests.support.native_calls import TOOLS, answers
from tests.support.operator_formats import reading
from tests.support.strategies import pieces
from tests.support.wire import IDENTITY, event_reads, text_from

LIMITS = st.builds(
    Limits,
    line_bytes=st.sampled_from([30, 200, 10**6]),
    event_bytes=st.sampled_from([60, 400, 10**6]),
    held_chars=st.integers(0, 60),
    header_chars=st.integers(0, 20),
    json_depth=st.integers(0, 4),
)


def check(upstream, client, format_name, reads, limits):
    pipeline = build_pipeline(
        client=client,
        upstream=upstream,
        **reading(format_name),
        identity=IDENTITY,
        toolbox=TOOLS,
        limits=limits,
    )
    events, sent = [], b""
    for read in reads:
        events += (new := pipeline.decode(read))
        sent += pipeline.encode(new)
    events += (new := pipeline.decode_end())
    sent += pipeline.encode(new)
    state = State.START
    for event in events:
        state = next_state(state, event)
    assert state is State.DONE
    check_end(sent, client)
    return events


@pytest.mark.parametrize("upstream", DIALECTS)
@given(
    answer=answers,
    think=st.sampled_from(["", "<think>", "</think>"]),
    places=st.lists(st.integers(0, 999), max_size=8),
    channel=st.sampled_from(["content", "reasoning"]),
    limits=LIMITS,
)
@settings(max_examples=150)
def test_w11_no_error_escapes_whatever_the_limits(upstream, answer, think, places, channel, limits):
    """W11: the error of a limit is an event like any other."""
    format_name, texts = answer
    body = text_from(upstream, pieces(think.join(["", *texts]), places), channel)
    for client in DIALECTS:
        for reads in ([body], event_reads(body)):
            check(upstream, client, format_name, reads, limits)


THINK_CASES = {
    "deepseek": ["<｜tool▁calls▁begin｜>", " nope <think><｜DSML｜function_calls>"],
    "qwen": ["<function=pi", " nope <think><tool_call> and more"],
    "kimi": ["<|tool_call_begin|>fu", " nope <think><|tool_calls_section_begin|>"],
}


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("format_name", THINK_CASES)
@pytest.mark.parametrize("held_chars", [0, 5, 10])
def test_w11_a_marker_in_an_open_think_that_exceeds_the_limit_is_an_error(
    upstream, format_name, held_chars
):
    """W11: the candidate before it was read a second time: it was shown twice, or failed again."""
    texts = THINK_CASES[format_name]
    reads = event_reads(text_from(upstream, texts, "content"))
    events = check(upstream, "anthropic", format_name, reads, Limits(held_chars=held_chars))
    assert isinstance(events[-1], MessageFailed)
    assert events[-1].fault is AnswerFault.BUFFER_LIMIT
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert "".join(texts).startswith(shown)
