"""Answers of upstreams in either dialect, streamed or complete, as `json.dumps` writes them."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.scripted_upstream import Step, reply, whole

_PIECE = 700


@dataclass(frozen=True)
class Call:
    name: str
    arguments: dict[str, Any]
    id: str = ""

    @property
    def json(self) -> str:
        return json.dumps(self.arguments, ensure_ascii=False)


def write_calls(format_name: str, calls: Sequence[Call]) -> str:
    """Return calls as a model of this native format writes them into its text."""
    match format_name:
        case "kimi":
            inner = "".join(
                f"<|tool_call_begin|>functions.{call.name}:{n}<|tool_call_argument_begin|>"
                f"{call.json}<|tool_call_end|>"
                for n, call in enumerate(calls)
            )
            return f"<|tool_calls_section_begin|>{inner}<|tool_calls_section_end|>"
        case "deepseek":
            inner = "".join(
                f"<｜tool▁call▁begin｜>{call.name}<｜tool▁sep｜>{call.json}<｜tool▁call▁end｜>"
                for call in calls
            )
            return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"
        case "harmony":
            return "".join(
                f"<|start|>assistant<|channel|>commentary to=functions.{call.name} <|constrain|>json"
                f"<|message|>{call.json}<|call|>"
                for call in calls
            )
        case "llama":
            return "<|python_tag|>" + "; ".join(
                f'{{"name": "{call.name}", "parameters": {call.json}}}' for call in calls
            )
        case "lfm":
            inner = ", ".join(
                f"{call.name}({', '.join(f'{k}={v!r}' for k, v in call.arguments.items())})"
                for call in calls
            )
            return f"<|tool_call_start|>[{inner}]<|tool_call_end|>"
    objects = (f'{{"name": "{call.name}", "arguments": {call.json}}}' for call in calls)
    return "\n".join(f"<tool_call>\n{text}\n</tool_call>" for text in objects)


def says(
    dialect: str, text: str, calls: Sequence[Call] = (), *, streamed: bool = True, model: str = "m"
) -> list[Step]:
    """Return an answer with this text and these structured calls."""
    if not streamed:
        return whole(document(dialect, text, calls, model=model))
    events = [*stream(dialect, text, calls, model=model)]
    middle = len(events) // 2
    return reply(b"".join(events[:middle]), b"".join(events[middle:]))


def document(dialect: str, text: str, calls: Sequence[Call] = (), *, model: str = "m") -> bytes:
    if dialect == "anthropic":
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        blocks += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in calls
        ]
        body: dict[str, Any] = {
            "id": "msg_up",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": blocks,
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 11, "output_tokens": 7},
        }
    else:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.json},
                }
                for call in calls
            ]
        finish = "tool_calls" if calls else "stop"
        body = {
            "id": "chatcmpl-up",
            "object": "chat.completion",
            "created": 1700000000,
            "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        }
    return json.dumps(body).encode()


def stream(
    dialect: str, text: str, calls: Sequence[Call] = (), *, model: str = "m"
) -> Iterator[bytes]:
    """Yield the server-sent events of an answer."""
    if dialect == "anthropic":
        return _anthropic(text, calls, model)
    return _openai(text, calls, model)


def _pieces(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def _anthropic(text: str, calls: Sequence[Call], model: str) -> Iterator[bytes]:
    start = {"id": "msg_up", "type": "message", "role": "assistant", "model": model}
    start |= {"content": [], "usage": {"input_tokens": 11, "output_tokens": 1}}  # type: ignore[dict-item]
    yield event({"type": "message_start", "message": start})
    yield event({"type": "ping"})
    index = 0
    if text:
        yield from _block(index, {"type": "text", "text": ""}, "text_delta", "text", text)
        index += 1
    for number, call in enumerate(calls, index):
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield from _block(number, block, "input_json_delta", "partial_json", call.json)
    reason = "tool_use" if calls else "end_turn"
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}})
    yield event({"type": "message_stop"})


def _block(index: int, block: dict[str, Any], kind: str, field: str, text: str) -> Iterator[bytes]:
    yield event({"type": "content_block_start", "index": index, "content_block": block})
    for piece in _pieces(text):
        delta = {"type": kind, field: piece}
        yield event({"type": "content_block_delta", "index": index, "delta": delta})
    yield event({"type": "content_block_stop", "index": index})


def event(body: dict[str, Any]) -> bytes:
    """Return one event of an Anthropic stream."""
    return f"event: {body['type']}\ndata: {json.dumps(body)}\n\n".encode()


def _openai(text: str, calls: Sequence[Call], model: str) -> Iterator[bytes]:
    yield chunk({"role": "assistant", "content": ""}, model=model)
    for piece in _pieces(text):
        yield chunk({"content": piece}, model=model)
    for index, call in enumerate(calls):
        function = {"name": call.name, "arguments": ""}
        first = {"index": index, "id": call.id, "type": "function", "function": function}
        yield chunk({"tool_calls": [first]}, model=model)
        for piece in _pieces(call.json):
            entry = {"index": index, "function": {"arguments": piece}}
            yield chunk({"tool_calls": [entry]}, model=model)
    yield chunk({}, "tool_calls" if calls else "stop", model=model)
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    yield chunk(None, model=model, usage=usage)
    yield b"data: [DONE]\n\n"


def chunk(
    delta: dict[str, Any] | None, finish: str | None = None, *, model: str = "m", **fields: Any
) -> bytes:
    """Return one chunk of an OpenAI stream; without a delta it has no choices."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    names = {"id": "chatcmpl-up", "object": "chat.completion.chunk", "created": 1700000000}
    body = {**names, "model": model, "choices": choices, **fields}
    return f"data: {json.dumps(body)}\n\n".encode()
