"""A model's output, tried out: no upstream, no client, nothing stored."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from formats import (
    DIALECTS,
    Event,
    Identity,
    ReplyOptions,
    Tool,
    Toolbox,
    build_pipeline,
    collect,
    merge_deltas,
)

WHOLE, CHARACTERS, PIECES, RANDOM = "whole", "characters", "pieces", "random"
_MOST_PIECES = 50_000
_TOKEN = "playground"  # noqa: S105  a part of ids


class NotPlayable(Exception):
    """What was entered cannot be tried; the message says why."""


@dataclass(frozen=True, slots=True)
class Played:
    events: list[Event]
    anthropic: str
    openai: str
    pieces: int
    """In how many the text arrived."""


def play(
    text: str,
    *,
    format_name: str,
    channel: str = "content",
    tools: str = "",
    chunking: str = WHOLE,
    size: int = 8,
    seed: int = 0,
) -> Played:
    """Run a text, or the server-sent events of an upstream, as if a model had just sent it."""
    toolbox = Toolbox(_tools(tools))
    dialect = _dialect(text)
    if dialect is None:
        dialect = "openai"
        wire = [_frame(piece, channel) for piece in cut(text, chunking, size=size, seed=seed)]
        wire = [_head(), *wire, _tail()]
    else:
        # Browsers send line ends as CR LF.
        plain = text.replace("\r\n", "\n")
        wire = [piece.encode() for piece in cut(plain, chunking, size=size, seed=seed)]
    events: list[Event] = []
    pipeline = build_pipeline(
        client="anthropic",
        upstream=dialect,
        format_name=format_name,
        identity=Identity(token=_TOKEN, message_id=f"msg_{_TOKEN}", model="model"),
        toolbox=toolbox,
    )
    for part in wire:
        events += pipeline.decode(part)
    events = merge_deltas([*events, *pipeline.decode_end()])
    return Played(
        events,
        anthropic=_reply(events, "anthropic"),
        openai=_reply(events, "openai"),
        pieces=len(wire),
    )


def cut(text: str, chunking: str, *, size: int, seed: int) -> Iterator[str]:
    """The pieces that a text arrives in; raises NotPlayable when there are too many."""
    if chunking == WHOLE:
        yield from [text] if text else []
        return
    step = 1 if chunking == CHARACTERS else max(1, size)
    if len(text) // step > _MOST_PIECES:
        raise NotPlayable(f"that would be more than {_MOST_PIECES:,} pieces: choose larger ones")
    chance = random.Random(seed)  # noqa: S311  the same cuts for the same seed
    place = 0
    while place < len(text):
        length = chance.randint(1, 2 * step - 1) if chunking == RANDOM else step
        yield text[place : place + length]
        place += length


def _dialect(text: str) -> str | None:
    """Whose server-sent events these are; None if they are none."""
    start = text.lstrip()[:200]
    if start.startswith("event: message_start"):
        return "anthropic"
    return "openai" if start.startswith(("data:", ": ")) else None


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: %b\n\n" % msgspec.json.encode({"id": "x", "model": "model", "choices": [choice]})


def _head() -> bytes:
    return _chunk({"role": "assistant"})


def _frame(piece: str, channel: str) -> bytes:
    return _chunk({"content" if channel == "content" else "reasoning_content": piece})


def _tail() -> bytes:
    return _chunk({}, "stop") + b"data: [DONE]\n\n"


def _reply(events: list[Event], dialect: str) -> str:
    """The whole message as a client of the dialect would get it, or its error."""
    reply = collect(events)
    if failure := reply.failure:
        body = DIALECTS[dialect].encode_error(failure.kind, failure.message)
    else:
        body = DIALECTS[dialect].encode_reply(reply, ReplyOptions())
    return msgspec.json.format(body, indent=2).decode()


def _tools(text: str) -> list[Tool]:
    """Tools in the shape of either dialect; raises NotPlayable."""
    if not text.strip():
        return []
    try:
        listed = msgspec.json.decode(text)
        functions = [tool.get("function", tool) for tool in listed]
        return [
            Tool(
                str(function["name"]),
                None,
                msgspec.json.encode(
                    function.get("input_schema") or function.get("parameters") or {}
                ),
            )
            for function in functions
        ]
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise NotPlayable(
            'the tools must be a JSON list like [{"name": "…", "input_schema": {…}}]'
        ) from error
