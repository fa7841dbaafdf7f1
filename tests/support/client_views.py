"""Reads answers as clients do, without any code of `formats`.

A call counts when its block was closed (Anthropic), or when its arguments are a JSON object
(OpenAI, which does not close calls).
"""

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class View:
    text: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    stop: str | None = None
    error: str | None = None
    usage: dict[str, Any] | None = None
    names: list[str] = field(default_factory=list)
    """The names of the events, in order."""


def payloads(body: bytes) -> list[tuple[str, Any]]:
    """Return the events of a stream as (name, data)."""
    events = []
    for block in body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in fields and fields["data"] != "[DONE]":
            events.append((fields.get("event", ""), json.loads(fields["data"])))
    return events


def error_type(kind: str, client: str) -> str:
    """Return the type by which a client's dialect shows an error of this kind inside a stream."""
    if client == "openai":
        return "server_error" if kind in {*_TEMPORARY, "format_transformation_error"} else kind
    return "overloaded_error" if kind in _TEMPORARY else kind


_TEMPORARY = {"api_error", "timeout_error", "overloaded_error"}


def view(body: bytes, client: str) -> View:
    return _anthropic(body) if client == "anthropic" else _openai(body)


def check_end(body: bytes, client: str) -> None:
    """Assert that a stream has exactly one end: that of a complete message, or an error.

    An unfinished last event is none, because clients drop it.
    """
    assert body.endswith(b"\n\n"), body[-200:]
    names = [_name(event) for event in body.decode().split("\n\n")[:-1]]
    ends = [name for name in names if name in _ENDS]
    assert names[len(names) - len(ends) :] == ends, names[-5:]  # nothing follows them
    assert ends in _LEGAL_ENDS[client], ends


_ENDS = {"[DONE]", "error", "finish", "message_delta", "message_stop", "usage"}
_LEGAL_ENDS = {
    "anthropic": [["message_delta", "message_stop"], ["error", "message_stop"]],
    "openai": [["finish", "[DONE]"], ["finish", "usage", "[DONE]"], ["error"]],
}


def _name(event: str) -> str:
    """Name an event by its part in the end of a stream."""
    [data] = [line[6:] for line in event.splitlines() if line.startswith("data: ")] or [""]
    if not data or data == "[DONE]":
        return data
    payload = json.loads(data)
    if "error" in payload:
        return "error"
    if "choices" not in payload:
        return str(payload["type"])
    if not payload["choices"]:
        return "usage" if payload.get("usage") else ""
    return "finish" if payload["choices"][0]["finish_reason"] else ""


def _anthropic(body: bytes) -> View:
    seen = View()
    blocks: dict[int, dict[str, Any]] = {}
    for name, event in payloads(body):
        seen.names.append(name)
        assert event["type"] == name
        match name:
            case "content_block_start":
                assert event["index"] == len(blocks)
                blocks[event["index"]] = event["content_block"] | {"json": "", "open": True}
            case "content_block_delta":
                block, delta = blocks[event["index"]], event["delta"]
                assert block["open"]
                match delta["type"]:
                    case "text_delta":
                        assert block["type"] == "text"
                        seen.text += delta["text"]
                    case "thinking_delta":
                        assert block["type"] == "thinking"
                        seen.reasoning += delta["thinking"]
                    case "input_json_delta":
                        assert block["type"] == "tool_use"
                        block["json"] += delta["partial_json"]
            case "content_block_stop":
                block = blocks[event["index"]]
                assert block["open"]
                block["open"] = False
                if (
                    block["type"] == "tool_use"
                    and (arguments := _object(block["json"])) is not None
                ):
                    seen.calls.append({"name": block["name"], "arguments": arguments})
                    seen.ids.append(block["id"])
            case "message_delta":
                seen.stop, seen.usage = event["delta"]["stop_reason"], event["usage"]
            case "error":
                seen.error = event["error"]["type"]
    return seen


def _openai(body: bytes) -> View:
    seen = View()
    calls: dict[int, dict[str, Any]] = {}
    for _, event in payloads(body):
        if "error" in event:
            seen.error = event["error"]["type"]
            continue
        seen.usage = event.get("usage") or seen.usage
        for choice in event["choices"]:
            delta = choice["delta"]
            seen.text += delta.get("content") or ""
            seen.reasoning += delta.get("reasoning_content") or ""
            seen.stop = choice["finish_reason"] or seen.stop
            for entry in delta.get("tool_calls", ()):
                if entry["index"] not in calls:
                    assert entry["index"] == len(calls)
                    assert entry["type"] == "function"
                    calls[entry["index"]] = {"id": entry["id"], "json": "", **entry["function"]}
                calls[entry["index"]]["json"] += entry["function"]["arguments"]
    for call in calls.values():
        if (arguments := _object(call["json"])) is not None:
            seen.calls.append({"name": call["name"], "arguments": arguments})
            seen.ids.append(call["id"])
    return seen


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
