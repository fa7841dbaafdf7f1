"""Playground: decodes a pasted model output, without upstream and client. Nothing is stored."""

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
_MAX_PIECES = 50_000
_TOKEN = "playground"  # noqa: S105  a part of ids


class BadPlaygroundInput(Exception):
    """The input cannot be decoded. The message says why."""


@dataclass(frozen=True, slots=True)
class PlaygroundResult:
    events: list[Event]
    anthropic: str
    openai: str
    pieces: int
    """Number of pieces in which the text arrived."""


def run_playground(
    text: str,
    *,
    format_name: str,
    definition: str | None = None,
    channel: str = "content",
    tools: str = "",
    chunking: str = WHOLE,
    size: int = 8,
    seed: int = 0,
) -> PlaygroundResult:
    """Decode a text, or the server-sent events of an upstream, as if a model had just sent it.

    `definition` is the text of an operator's format, which need not be saved.
    """
    toolbox = Toolbox(_tools(tools))
    dialect = _dialect(text)
    if dialect is None:
        dialect = "openai"
        wire = [
            _frame(piece, channel) for piece in split_text(text, chunking, size=size, seed=seed)
        ]
        wire = [_head(), *wire, _tail()]
    else:
        # Browsers send line breaks as CR LF.
        plain = text.replace("\r\n", "\n")
        wire = [piece.encode() for piece in split_text(plain, chunking, size=size, seed=seed)]
    events: list[Event] = []
    pipeline = build_pipeline(
        client="anthropic",
        upstream=dialect,
        format_name=format_name,
        definition=definition,
        identity=Identity(token=_TOKEN, message_id=f"msg_{_TOKEN}", model="model"),
        toolbox=toolbox,
    )
    for part in wire:
        events += pipeline.decode(part)
    events = merge_deltas([*events, *pipeline.decode_end()])
    return PlaygroundResult(
        events,
        anthropic=_reply(events, "anthropic"),
        openai=_reply(events, "openai"),
        pieces=len(wire),
    )


def split_text(text: str, chunking: str, *, size: int, seed: int) -> Iterator[str]:
    """Split a text into the pieces in which it arrives; raises BadPlaygroundInput if too many."""
    if chunking == WHOLE:
        yield from [text] if text else []
        return
    step = 1 if chunking == CHARACTERS else max(1, size)
    if len(text) // step > _MAX_PIECES:
        raise BadPlaygroundInput(
            f"the text would have more than {_MAX_PIECES:,} pieces: choose a larger size"
        )
    chance = random.Random(seed)  # noqa: S311  the same cuts for the same seed
    at = 0
    while at < len(text):
        length = chance.randint(1, 2 * step - 1) if chunking == RANDOM else step
        yield text[at : at + length]
        at += length


def _dialect(text: str) -> str | None:
    """The dialect of server-sent events; None for plain text."""
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
    """The message as a client of the dialect gets it without streaming, or its error."""
    reply = collect(events)
    if failure := reply.failure:
        body = DIALECTS[dialect].encode_error(failure.kind, failure.message)
    else:
        body = DIALECTS[dialect].encode_reply(reply, ReplyOptions())
    return msgspec.json.format(body, indent=2).decode()


def _tools(text: str) -> list[Tool]:
    """Parse tools in the form of either dialect; raises BadPlaygroundInput."""
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
        raise BadPlaygroundInput(
            'the tools must be a JSON list like [{"name": "…", "input_schema": {…}}]'
        ) from error
