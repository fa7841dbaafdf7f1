"""Checks requests to an OpenAI upstream: required fields, order of messages, leaked headers."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

_USER_CHARS = 64
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ANTHROPIC = ("x-anthropic-billing-header", "cache_control", "defer_loading", "tool_use_id")
_FIELDS = {
    "model",
    "messages",
    "tools",
    "max_tokens",
    "stream",
    "stream_options",
    "stop",
    "reasoning",
    "user",
    "temperature",
}


def faults_of(content: bytes, headers: dict[str, str], *, model: str, key: str) -> list[str]:
    """List the faults of a request; empty if it is well-formed."""
    return [*_faults(content, headers, model, key)]


def text_of(message: dict[str, Any]) -> str:
    """Return the text of a message, written as a string or as parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def images_of(message: dict[str, Any]) -> list[str]:
    """Return the URLs of a message's images."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return []
    return [part["image_url"]["url"] for part in content if part["type"] == "image_url"]


def _faults(content: bytes, headers: dict[str, str], model: str, key: str) -> Iterator[str]:
    names = {name.lower(): value for name, value in headers.items()}
    if names.get("authorization") != f"Bearer {key}":
        yield f"the authorization is {names.get('authorization')!r}"
    for name in names:
        if name.startswith(("anthropic", "x-api-key", "x-stainless", "x-claude", "x-app")):
            yield f"the client's header {name} was forwarded upstream"
    body = json.loads(content)
    for word in _ANTHROPIC:
        if word.encode() in content:
            yield f"{word} is in the body"
    if unknown := body.keys() - _FIELDS:
        yield f"unknown fields {sorted(unknown)}"
    if body["model"] != model:
        yield f"the model is {body['model']!r}"
    if body.get("stream") is not True or not body["stream_options"]["include_usage"]:
        yield "it does not ask for a stream with usage"
    if not body["max_tokens"] > 0:
        yield f"max_tokens is {body['max_tokens']!r}"
    if len(body.get("user", "")) > _USER_CHARS:
        yield f"the user's id is too long: {body['user']!r}"
    yield from _tool_faults(body)
    yield from _message_faults(body["messages"])
    if "kimi" in model:
        yield from _kimi_faults(body["messages"])


def _tool_faults(body: dict[str, Any]) -> Iterator[str]:
    if "tools" not in body:
        return
    functions = [tool["function"] for tool in body["tools"] if tool["type"] == "function"]
    if len(functions) != len(body["tools"]) or not functions:
        yield "tools is empty or contains something other than functions"
    for function in functions:
        if not _NAME.fullmatch(function["name"]):
            yield f"a tool is named {function['name']!r}"
        if function["parameters"]["type"] != "object":
            yield f"the parameters of {function['name']} are not an object"
    names = Counter(function["name"] for function in functions)
    yield from (f"the tool {name} is listed twice" for name, n in names.items() if n > 1)


def _message_faults(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Check for one leading system message, and for a result right after every call, in order."""
    seen: set[str] = set()
    open_ids: list[str] = []
    for number, message in enumerate(messages):
        role = message["role"]
        place = f"messages.{number} ({role})"
        if role == "tool":
            if not open_ids or message["tool_call_id"] != open_ids.pop(0):
                yield f"{place} answers {message['tool_call_id']!r} out of order"
            if not isinstance(message["content"], str):
                yield f"{place} has no text"
            continue
        if open_ids:
            yield f"{place} comes before the results of {open_ids}"
        open_ids = [call["id"] for call in message.get("tool_calls", ())]
        if repeated := seen.intersection(open_ids) or len({*open_ids}) < len(open_ids):
            yield f"{place} repeats ids: {repeated}"
        seen.update(open_ids)
        yield from (f"{place}: {fault}" for fault in _role_faults(message, number))
    if open_ids:
        yield f"results are missing for {open_ids}"
    if messages[-1]["role"] == "assistant":
        yield "the last message is the assistant's"


def _role_faults(message: dict[str, Any], number: int) -> Iterator[str]:
    match message["role"]:
        case "system":
            if number:
                yield "a system message in the middle"
        case "user":
            if not (text_of(message).strip() or images_of(message)):
                yield "has no content"
        case "assistant":
            if not (message.get("content") or message.get("tool_calls")):
                yield "has no content"
            for call in message.get("tool_calls", ()):
                if not isinstance(json.loads(call["function"]["arguments"]), dict):
                    yield f"the arguments of {call['id']} are not an object"
        case role:
            yield f"the role {role!r} is unknown"


def _kimi_faults(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Check that Kimi's call ids count up over the whole conversation, as the model requires."""
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    for number, call in enumerate(calls):
        expected = f"functions.{call['function']['name']}:{number}"
        if call["id"] != expected:
            yield f"the id {call['id']!r} should be {expected!r}"
