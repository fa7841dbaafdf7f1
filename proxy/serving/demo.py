"""The demo upstream: a script that calls the client's tools in the format of a model family.

The gateway reaches it over HTTP like any other upstream, so everything in between is real. It is a
script, not a model: it picks a tool by the words of the user's text, fills the arguments from that
text, and says so.
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
from proxy.serving.handler import EventStream, Response, endpoint
from proxy.serving.request import GatewayRequest

MODELS = ("moonshotai/kimi-k2.5", "qwen/qwen3-coder", "qwen/qwen3-max", "deepseek/deepseek-v3.1")
_ABOUT = (
    "I am Athena's demo model: a script, not a real model. Mention one of your tools, or put a "
    "value in `backquotes`, and I will call it. To use real models, set OPENROUTER_API_KEY and "
    "restart Athena."
)
_CHUNK_CHARS = 7  # cuts markers into pieces, as real models do
_CHUNK_SECONDS = 0.004
_REMINDER_TAG = re.compile(r"(</?system-reminder>)")
_BACKQUOTED = re.compile(r"`[^`]+`")
_QUOTED = re.compile(r"`([^`]+)`|\"([^\"]+)\"|'([^']{2,})'")
_PROPER = re.compile(r"(?<=[a-z,] )([A-Z][\w-]+(?: [A-Z][\w-]+)*)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


async def admit_gateway(request: GatewayRequest) -> None:
    """Admit only this gateway; raises GatewayError."""
    sent = request.headers.get("authorization", "").removeprefix("Bearer ")
    if not hmac.compare_digest(sent.encode(), demo_key().encode()):
        message = "the demo upstream only answers the gateway that it is part of"
        raise GatewayError(ErrorCode.INVALID_KEY, message)


@endpoint("GET", admit=admit_gateway)
async def models(request: GatewayRequest) -> HttpResponse:
    data = [{"id": name, "object": "model", "owned_by": "athena-demo"} for name in MODELS]
    return HttpResponse(
        msgspec.json.encode({"object": "list", "data": data}), content_type="application/json"
    )


@endpoint("POST", admit=admit_gateway, reads_body=True)
async def chat_completions(request: GatewayRequest) -> Response:
    try:
        body = msgspec.json.decode(request.body, type=dict[str, Any])
        deltas = [*answer(body)]
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise GatewayError(
            ErrorCode.INVALID_REQUEST, f"the demo upstream cannot read this request: {error}"
        ) from error
    stream = _stream(str(body["model"]), deltas, prompt_chars=len(request.body))
    return EventStream(stream, on_close=lambda: None)


def answer(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the deltas of the demo model's answer."""
    role, text = _last_words(body["messages"])
    if role == "tool":
        yield {"content": f"The tool answered: {text[:400]}"}
        return
    function = _choose(body, text)
    if function is None:
        yield {"content": _ABOUT}
        return
    arguments = _arguments(function.get("parameters") or {}, text)
    name, count = function["name"], sum(len(m.get("tool_calls", ())) for m in body["messages"])
    yield {"reasoning_content": f"The user's words point to the tool {name}."}
    yield {"content": f"I will use {name}."}
    model = str(body["model"])
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
            await asyncio.sleep(_CHUNK_SECONDS)
    yield _chunk(model, choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
    usage = {"prompt_tokens": prompt_chars // 4, "completion_tokens": written}
    yield _chunk(model, choices=[], usage=usage) + b"data: [DONE]\n\n"


def _pieces(delta: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for field, value in delta.items():
        if isinstance(value, str):
            for start in range(0, len(value), _CHUNK_CHARS):
                yield {field: value[start : start + _CHUNK_CHARS]}
        else:
            yield {field: value}


def _chunk(model: str, **fields: Any) -> bytes:
    head = {"id": "demo", "object": "chat.completion.chunk", "model": model, "provider": "demo"}
    return b"data: %b\n\n" % msgspec.json.encode(head | fields)


def _last_words(messages: list[dict[str, Any]]) -> tuple[str, str]:
    """Return the role and the text of the last message that has more than reminders.

    Claude Code puts reminders before the user's own words, and ends a request with one.
    """
    for message in reversed(messages):
        if message["role"] == "assistant":
            break
        text = _without_reminders(_text(message))
        if text or message["role"] == "tool":
            return message["role"], text
    return "user", ""


def _without_reminders(text: str) -> str:
    """Return the text outside reminders, which may be nested."""
    kept, depth = [], 0
    for piece in _REMINDER_TAG.split(text):
        if _REMINDER_TAG.fullmatch(piece):
            depth = max(depth - 1, 0) if piece.startswith("</") else depth + 1
        elif not depth:
            kept.append(piece)
    return "".join(kept).strip()


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


def _choose(body: dict[str, Any], text: str) -> dict[str, Any] | None:
    """Choose the tool that is forced, or the one whose name shares most words with the text."""
    functions: list[dict[str, Any]] = [tool["function"] for tool in body.get("tools", ())]
    choice = body.get("tool_choice")
    if choice == "none" or not functions:
        return None
    if isinstance(choice, dict):
        name = choice["function"]["name"]
        return next((f for f in functions if f["name"] == name), None)
    words = _words(text)
    scores = [len(_words(f["name"]) & words) for f in functions]
    best = max(scores)
    if best or choice == "required" or len(functions) == 1:
        return functions[scores.index(best)]
    return _tool_for_value(functions) if _BACKQUOTED.search(text) else None


def _tool_for_value(functions: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Choose a tool for a value in backquotes: one that runs commands, or that needs one value."""
    needs = [(f.get("parameters") or {}).get("required") or [] for f in functions]
    commands = (f for f, names in zip(functions, needs, strict=True) if "command" in names)
    single = (f for f, names in zip(functions, needs, strict=True) if len(names) == 1)
    return next(commands, None) or next(single, None)


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text) if len(word) > 2}


def _arguments(schema: dict[str, Any], text: str) -> dict[str, Any]:
    properties = schema.get("properties") or {}
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
