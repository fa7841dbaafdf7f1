"""Hypothesis strategies for messages, and for what upstreams may send."""

import json
from typing import Any

from hypothesis import strategies as st

from formats import (
    Event,
    FailureKind,
    MessageEnd,
    MessageFailed,
    MessageStart,
    ReasoningDelta,
    ReasoningRedacted,
    ReasoningSignature,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)

_characters = st.characters(exclude_categories=["Cs"])
prose = st.text(_characters, min_size=1, max_size=40)
names = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,20}", fullmatch=True)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(_characters, max_size=20),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(prose, children, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(prose, values, max_size=4)


def pieces(text: str, places: list[int]) -> list[str]:
    """Cut the text at these places, modulo its length."""
    ends = sorted({place % (len(text) + 1) for place in places})
    cut = [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]
    return [piece for piece in cut if piece]


@st.composite
def call(draw: st.DrawFn) -> list[Event]:
    given = draw(arguments)
    text = json.dumps(given, ensure_ascii=draw(st.booleans()))
    deltas = [ToolCallDelta(piece) for piece in pieces(text, draw(st.lists(st.integers(0, 999))))]
    call_id = draw(st.uuids().map(lambda uuid: f"toolu_{uuid.hex}"))
    return [ToolCallStart(call_id, draw(names)), *deltas, ToolCallEnd()]


run: st.SearchStrategy[Any] = (
    prose.map(lambda text: [TextDelta(text)])
    | prose.map(lambda text: [ReasoningDelta(text)])
    | st.tuples(prose, prose).map(lambda p: [ReasoningDelta(p[0]), ReasoningSignature(p[1])])
    | prose.map(lambda text: [ReasoningRedacted(text)])
    | call()
)

counts = st.integers(0, 10**6)
usages = st.builds(
    Usage,
    input=counts,
    output=counts,
    cache_read=st.none() | counts,
    cache_creation=st.none() | counts,
)


@st.composite
def messages(draw: st.DrawFn) -> list[Event]:
    """A complete message of an upstream, as events."""
    runs: list[list[Event]] = draw(st.lists(run, min_size=1, max_size=6))
    body = [event for events in runs for event in events]
    has_call = any(isinstance(event, ToolCallEnd) for event in body)
    usage = draw(usages)
    ending: Event
    if draw(st.integers(0, 9)) == 0:
        ending = MessageFailed(draw(st.sampled_from(REPORTED)), draw(prose))
    elif has_call:
        ending = MessageEnd(StopReason.TOOL_USE, usage=usage)
    else:
        reasons = [StopReason.END_TURN, StopReason.MAX_TOKENS, StopReason.REFUSAL]
        ending = MessageEnd(draw(st.sampled_from(reasons)), usage=usage)
    return [MessageStart("msg_1", "m"), *body, ending]


REPORTED = [kind for kind in FailureKind if kind is not FailureKind.INTERNAL]
