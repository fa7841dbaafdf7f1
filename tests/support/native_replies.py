"""Reads a model's text with a native format, at several splits, which must not matter."""

from formats import (
    Event,
    MessageEnd,
    MessageStart,
    ReasoningDelta,
    Reply,
    StopReason,
    TextDelta,
    Tool,
    Toolbox,
    collect,
    merge_deltas,
)
from formats.conversation import Reasoning, Text, ToolCall
from formats.native.format import NativeFormat
from formats.native.rescue import CallRescue
from tests.support.wire import cuts

_SCHEMA = b'{"type":"object","properties":{"a":{"type":"string"},"n":{"type":"integer"},"o":{}}}'
TOOLS = Toolbox([Tool("f", None, _SCHEMA), Tool("g", None, _SCHEMA)])


def read_deltas(native: NativeFormat, *deltas: TextDelta | ReasoningDelta) -> Reply:
    """Return the reply of these deltas, each in a read of its own."""
    rescue = CallRescue(native, TOOLS)
    reads: list[Event] = [MessageStart("", ""), *deltas, MessageEnd(StopReason.END_TURN)]
    return collect(merge_deltas([event for read in reads for event in rescue.feed([read])]))


def read_text(native: NativeFormat, text: str, channel: str = "content") -> Reply:
    """Return the reply of a text, which is the same at any split."""
    delta = TextDelta if channel == "content" else ReasoningDelta
    replies = [read_deltas(native, *(delta(p) for p in pieces if p)) for pieces in cuts(text, 3)]
    assert all(reply == replies[0] for reply in replies)
    return replies[0]


def text_of(reply: Reply) -> str:
    return "".join(part.text for part in reply.parts if isinstance(part, Text))


def reasoning_of(reply: Reply) -> str:
    return "".join(part.text for part in reply.parts if isinstance(part, Reasoning))


def calls_of(reply: Reply) -> list[tuple[str, str]]:
    calls = (part for part in reply.parts if isinstance(part, ToolCall))
    return [(call.name, call.arguments.decode()) for call in calls]
