"""The demo upstream: a scripted model that calls the caller's tools, in its family's own format.

It is reached over HTTP like any other upstream, so that everything between is real. It is no model:
it picks a tool by words of the user's text, fills the arguments from that text, and says so.
"""

import asyncio
import hmac
import json
import re
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import msgspec
from django.http import HttpResponse

from formats import detect_format
from proxy.configuration.upstream import demo_key
from proxy.errors import ErrorCode, GatewayError
from proxy.http.handler import GatewayRequest
from proxy.http.response import EventStream, Response

MODELS = ("moonshotai/kimi-k2.5", "qwen/qwen3-coder", "qwen/qwen3-max", "deepseek/deepseek-v3.1")
_ABOUT = (
    "I am Athena's demo model: a script, no real model. Mention one of your tools, or put a value "
    "in `backquotes`, and I will call it. Set OPENROUTER_API_KEY and restart to talk to real ones."
)
_PIECE = 7  # characters a chunk: markers arrive in pieces, as from real models
_PAUSE = 0.004
_QUOTED = re.compile(r"`([^`]+)`|\"([^\"]+)\"|'([^']{2,})'")
_PROPER = re.compile(r"(?<=[a-z,] )([A-Z][\w-]+(?: [A-Z][\w-]+)*)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


async def models(request: GatewayRequest) -> HttpResponse:
    check_sender(request)
    data = [{"id": name, "object": "model", "owned_by": "athena-demo"} for name in MODELS]
    return HttpResponse(
        msgspec.json.encode({"object": "list", "data": data}), content_type="application/json"
    )


async def chat_completions(request: GatewayRequest) -> Response:
    check_sender(request)
    try:
        asked = msgspec.json.decode(request.content, type=dict[str, Any])
        deltas = [*answer(asked)]
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise GatewayError(
            ErrorCode.INVALID_REQUEST, f"the demo upstream cannot read this request: {error}"
        ) from error
    stream = _stream(str(asked["model"]), deltas, prompt_chars=len(request.content))
    return EventStream(stream, on_close=lambda: None)


def answer(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The deltas that the demo model answers with."""
    last = asked["messages"][-1]
    if last["role"] == "tool":
        yield {"content": f"The tool answered: {_text(last)[:400]}"}
        return
    text = _text(last)
    function = _choose(asked, text)
    if function is None:
        yield {"content": _ABOUT}
        return
    arguments = _arguments(function.get("parameters") or {}, text)
    name, count = function["name"], sum(len(m.get("tool_calls", ())) for m in asked["messages"])
    yield {"reasoning_content": f"The user's words point to the tool {name}."}
    yield {"content": f"I will use {name}."}
    model = str(asked["model"])
    match detect_format(model).format:
        case "kimi":
            yield {"content": write_kimi(name, arguments, count)}
        case "qwen" if "coder" in model:
            yield {"content": write_qwen_coder(name, arguments)}
        case "qwen":
            yield {"content": write_hermes(name, arguments)}
        case "deepseek":
            yield {"content": write_deepseek(name, arguments)}
        case _:
            call = {"name": name, "arguments": json.dumps(arguments)}
            entry = {"index": 0, "id": f"call_{count}", "type": "function", "function": call}
            yield {"tool_calls": [entry]}


def write_kimi(name: str, arguments: dict[str, Any], count: int) -> str:
    return (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{name}:{count}"
        f"<|tool_call_argument_begin|>{json.dumps(arguments)}<|tool_call_end|>"
        "<|tool_calls_section_end|>"
    )


def write_hermes(name: str, arguments: dict[str, Any]) -> str:
    return f"\n<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def write_qwen_coder(name: str, arguments: dict[str, Any]) -> str:
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in arguments.items()}
    values = "".join(f"<parameter={k}>\n{text}\n</parameter>\n" for k, text in texts.items())
    return f"\n<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>"


def write_deepseek(name: str, arguments: dict[str, Any]) -> str:
    return (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}<｜tool▁sep｜>"
        f"{json.dumps(arguments)}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    )


async def _stream(
    model: str, deltas: list[dict[str, Any]], *, prompt_chars: int
) -> AsyncGenerator[bytes, None]:
    written = 0
    for delta in deltas:
        for piece in _pieces(delta):
            written += 1
            yield _chunk(model, choices=[{"index": 0, "delta": piece, "finish_reason": None}])
            await asyncio.sleep(_PAUSE)
    yield _chunk(model, choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
    usage = {"prompt_tokens": prompt_chars // 4, "completion_tokens": written}
    yield _chunk(model, choices=[], usage=usage) + b"data: [DONE]\n\n"


def _pieces(delta: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for field, value in delta.items():
        if isinstance(value, str):
            for start in range(0, len(value), _PIECE):
                yield {field: value[start : start + _PIECE]}
        else:
            yield {field: value}


def _chunk(model: str, **fields: Any) -> bytes:
    head = {"id": "demo", "object": "chat.completion.chunk", "model": model, "provider": "demo"}
    return b"data: %b\n\n" % msgspec.json.encode(head | fields)


def check_sender(request: GatewayRequest) -> None:
    """Raise GatewayError unless it is the gateway itself that asks."""
    sent = request.headers.get("authorization", "").removeprefix("Bearer ")
    if not hmac.compare_digest(sent.encode(), demo_key().encode()):
        raise GatewayError(ErrorCode.INVALID_KEY, "the demo upstream is for this gateway alone")


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


def _choose(asked: dict[str, Any], text: str) -> dict[str, Any] | None:
    """The tool that was forced, else named, else the only one, else the one with most words."""
    functions: list[dict[str, Any]] = [tool["function"] for tool in asked.get("tools", ())]
    choice = asked.get("tool_choice")
    if choice == "none" or not functions:
        return None
    if isinstance(choice, dict):
        name = choice["function"]["name"]
        return next((f for f in functions if f["name"] == name), None)
    # Claude Code writes reminders around the user's own words, which come last.
    said = _words(text.rpartition("</system-reminder>")[2])
    scores = [len(_words(f["name"]) & said) for f in functions]
    best = max(scores)
    if best or choice == "required" or len(functions) == 1:
        return functions[scores.index(best)]
    return None


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text) if len(word) > 2}


def _arguments(schema: dict[str, Any], text: str) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    text = text.rpartition("</system-reminder>")[2].strip()
    quoted = ["".join(groups) for groups in _QUOTED.findall(text)]
    strings = [*quoted, *_PROPER.findall(text)] or [text]
    numbers = [*map(float, _NUMBER.findall(text))]
    filled: dict[str, Any] = {}
    for key in schema.get("required") or list(properties)[:1]:
        filled[key] = _value(properties.get(key) or {}, strings, numbers)
    return filled


def _value(schema: dict[str, Any], strings: list[str], numbers: list[float]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    if "default" in schema:
        return schema["default"]
    match schema.get("type"):
        case "integer":
            return int(numbers.pop(0)) if numbers else 1
        case "number":
            return numbers.pop(0) if numbers else 1
        case "boolean":
            return True
        case "array":
            return []
        case "object":
            return {}
    return strings.pop(0) if len(strings) > 1 else strings[0]
