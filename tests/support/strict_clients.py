"""Reads relayed answers as the official SDKs do, and accepts nothing that they could misread.

The SDKs go by the name of an event (Anthropic) or ignore names (OpenAI), end lines at LF and CRLF
only, deliver an event without data, and keep a byte order mark.
"""

import json
from dataclasses import dataclass, field
from typing import Any

_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("tool_use", "partial_json"),
}


@dataclass
class Read:
    stop: str = ""
    """The stop reason, or `error`."""
    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)


def read_strictly(body: bytes, client: str) -> Read:
    """Return what a client has read at the end; raises for a stream that it could misread."""
    assert b"\r" not in body.replace(b"\r\n", b"\n"), "CR ends no line for this client"
    assert not body.startswith(b"\xef\xbb\xbf"), "a byte order mark is a part of the first name"
    events = [event for block in _blocks(body) if (event := _event(block))]
    return _anthropic(events) if client == "anthropic" else _openai(events)


def read_document_strictly(body: bytes, client: str) -> Read:
    """Return what a client has read from a whole answer; raises if it could misread it."""
    answer = json.loads(body, object_pairs_hook=_members)
    assert "error" not in answer or answer["error"] is None
    for name in ("id", "model"):
        assert isinstance(answer[name], str)
        assert answer[name]
    return _message(answer) if client == "anthropic" else _completion(answer)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), "clients differ in which of two values they take"
    return dict(pairs)


def _message(answer: dict[str, Any]) -> Read:
    assert (answer["type"], answer["role"]) == ("message", "assistant")
    assert answer["stop_reason"]
    assert isinstance(answer["usage"]["output_tokens"], int)
    read, ids = Read(answer["stop_reason"]), set()
    for block in answer["content"]:
        match block["type"]:
            case "text":
                read.text += block["text"]
            case "thinking":
                assert isinstance(block["thinking"] + block["signature"], str)
            case "redacted_thinking":
                assert isinstance(block["data"], str)
            case "tool_use":
                assert isinstance(block["input"], dict)
                assert block["id"]
                ids.add(block["id"])
                read.calls.append((block["name"], block["input"]))
            case kind:
                assert isinstance(kind, str), "a block without a type"
    assert len(ids) == len(read.calls), "two calls with one id"
    assert bool(read.calls) == (read.stop == "tool_use") or read.stop != "end_turn"
    return read


_FINISHES = {"stop", "length", "tool_calls", "content_filter", "function_call"}


def _completion(answer: dict[str, Any]) -> Read:
    assert answer["object"] == "chat.completion"
    assert type(answer["created"]) is int
    (choice,) = answer["choices"]
    assert choice["index"] == 0
    message = choice["message"]
    assert message["role"] == "assistant"
    read = Read(choice["finish_reason"])
    assert read.stop in _FINISHES
    content = message.get("content")
    assert content is None or isinstance(content, str)
    read.text = (content or "") + (message.get("refusal") or "")
    for entry in message.get("tool_calls") or ():
        assert entry["type"] == "function"
        assert entry["id"]
        function = entry["function"]
        read.calls.append((function["name"], json.loads(function["arguments"])))
    assert not read.calls or read.stop in ("tool_calls", "length", "content_filter")
    for name in ("prompt_tokens", "completion_tokens"):
        assert type((answer.get("usage") or {name: 0})[name]) is int
    return read


def _blocks(body: bytes) -> list[str]:
    text = body.decode().replace("\r\n", "\n")
    *blocks, rest = text.split("\n\n")
    assert not rest.strip(), "clients drop an event without its blank line"
    return blocks


def _event(block: str) -> tuple[str, str] | None:
    name, data = "", []
    for line in filter(None, block.split("\n")):
        key, _, value = line.partition(":")
        match key:
            case "event":
                name = value.removeprefix(" ")
            case "data":
                data.append(value.removeprefix(" "))
            case "":
                pass  # a comment
            case _:
                raise AssertionError(f"the field {key} makes SDKs deliver an event without data")
    return (name, "\n".join(data)) if name or data else None


def _anthropic(events: list[tuple[str, str]]) -> Read:
    read, state, count = Read(), "start", 0
    block: dict[str, Any] | None = None
    for name, data in events:
        event = json.loads(data)
        assert event["type"] == name
        if name == "error":
            read.stop = name
            return read
        assert state != "end", f"{name} after the end"
        match name:
            case "message_start":
                assert state == "start"
                state = "open"
            case "content_block_start":
                assert (state, block, event["index"]) == ("open", None, count)
                block, count = event["content_block"] | {"parts": ""}, count + 1
            case "content_block_delta":
                delta = event["delta"]
                assert block is not None
                assert event["index"] == count - 1
                if delta["type"] in _DELTAS:
                    kind, part = _DELTAS[delta["type"]]
                    assert kind == block["type"] or block["type"] not in ("text", "tool_use")
                    block["parts"] += delta[part]
            case "content_block_stop":
                assert block is not None
                assert event["index"] == count - 1
                if block["type"] == "text":
                    read.text += block["parts"]
                elif block["type"] == "tool_use":
                    read.calls.append((block["name"], json.loads(block["parts"] or "{}")))
                block = None
            case "message_delta":
                assert (state, block) == ("open", None)
                assert event["usage"] is not None
                read.stop = event["delta"].get("stop_reason") or ""
                state = "stopped" if read.stop else "open"
            case "message_stop":
                assert state == "stopped"
                state = "end"
    assert state == "end", f"no end: {state}"
    return read


def _openai(events: list[tuple[str, str]]) -> Read:
    read, is_done = Read(), False
    calls: list[list[str]] = []
    for name, data in events:
        assert not name
        if data == "[DONE]":
            is_done = True
            continue
        assert not is_done, "data after the end"
        chunk = json.loads(data)
        if "error" in chunk:
            read.stop = "error"
            return read
        for choice in chunk["choices"]:
            assert choice["index"] == 0
            delta = choice.get("delta") or {}
            content, entries = delta.get("content") or "", delta.get("tool_calls") or ()
            assert not (read.stop and (content or entries)), "content after the finish reason"
            read.text += content
            for entry in entries:
                if entry["index"] == len(calls):
                    calls.append([entry["function"]["name"], ""])
                calls[entry["index"]][1] += entry["function"]["arguments"]
            if finish := choice.get("finish_reason"):
                assert read.stop in ("", finish)
                assert finish in _FINISHES
                read.stop = finish
    assert is_done
    assert read.stop
    read.calls = [(name, json.loads(arguments or "{}")) for name, arguments in calls]
    return read
