"""Law 7 over real HTTP: every client, upstream, format and mode, with the official SDKs.

In each cell a client asks about a picture, gets two calls at once, one of them with 40 KB of
arguments, answers them, one with a picture, and gets an answer; then one request is rejected, and one
answer breaks off.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai
import pytest

from tests.support.gateway import KEY
from tests.support.scripted_upstream import Close, reply, whole
from tests.support.upstream_answers import Call, says, stream, write_calls

FORMATS = ("standard", "auto", "kimi", "qwen", "deepseek")
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path"],
}
CALLS = [
    Call("look", {"path": "pier.png"}, "toolu_first"),
    Call("write", {"path": "log.txt", "content": 'Grüße "<b>\\\n' * 2900}, "toolu_second"),
]


@dataclass
class Turn:
    text: str
    calls: list[tuple[str, str, Any]]
    stop: str | None
    message: Any = field(repr=False)
    """The assistant's message, as the client sends it back."""


class AnthropicClient:
    errors = (anthropic.APIStatusError, anthropic.APIConnectionError)

    def __init__(self, url: str) -> None:
        self._sdk = anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0)
        self._tools: Any = [{"name": c.name, "input_schema": SCHEMA} for c in CALLS]

    def question(self, text: str) -> Any:
        return {"role": "user", "content": [_picture(), {"type": "text", "text": text}]}

    def results(self, turn: Turn) -> list[Any]:
        contents = [[{"type": "text", "text": "seen"}, _picture()], "written"]
        results = [
            {"type": "tool_result", "tool_use_id": call_id, "content": content}
            for (call_id, _, _), content in zip(turn.calls, contents, strict=True)
        ]
        return [{"role": "user", "content": results}]

    def ask(self, model: str, messages: list[Any], *, streamed: bool) -> Turn:
        fields: Any = {
            "model": model,
            "max_tokens": 999,
            "messages": messages,
            "tools": self._tools,
        }
        if streamed:
            with self._sdk.messages.stream(**fields) as answer:
                message = answer.get_final_message()
        else:
            message = self._sdk.messages.create(**fields)
        blocks = [block.model_dump(exclude_none=True) for block in message.content]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        calls = [(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]
        return Turn(text, calls, message.stop_reason, {"role": "assistant", "content": blocks})

    def close(self) -> None:
        self._sdk.close()


class OpenAIClient:
    errors = (openai.APIError,)

    def __init__(self, url: str) -> None:
        self._sdk = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
        self._tools: Any = [
            {"type": "function", "function": {"name": c.name, "parameters": SCHEMA}} for c in CALLS
        ]

    def question(self, text: str) -> Any:
        return {"role": "user", "content": [_picture_url(), {"type": "text", "text": text}]}

    def results(self, turn: Turn) -> list[Any]:
        contents = [[{"type": "text", "text": "seen"}, _picture_url()], "written"]
        return [
            {"role": "tool", "tool_call_id": call_id, "content": content}
            for (call_id, _, _), content in zip(turn.calls, contents, strict=True)
        ]

    def ask(self, model: str, messages: list[Any], *, streamed: bool) -> Turn:
        fields: Any = {"model": model, "messages": messages, "tools": self._tools}
        if streamed:
            with self._sdk.chat.completions.stream(**fields) as answer:
                choice = answer.get_final_completion().choices[0]
        else:
            choice = self._sdk.chat.completions.create(**fields).choices[0]
        message = choice.message.model_dump(exclude_none=True, exclude={"parsed"})
        for call in message.get("tool_calls", ()):
            call["function"].pop("parsed_arguments", None)
            call.pop("index", None)
        calls = [
            (c["id"], c["function"]["name"], json.loads(c["function"]["arguments"]))
            for c in message.get("tool_calls", ())
        ]
        return Turn(choice.message.content or "", calls, choice.finish_reason, message)

    def close(self) -> None:
        self._sdk.close()


CLIENTS: dict[str, Any] = {"anthropic": AnthropicClient, "openai": OpenAIClient}
STOPS = {"anthropic": ("tool_use", "end_turn"), "openai": ("tool_calls", "stop")}


def _picture() -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
    return {"type": "image", "source": source}


def _picture_url() -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("dialect", CLIENTS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_conversation_with_tools_works_in_every_cell(
    gateway, both_dialects, upstream, client, dialect, format_name, streamed
):
    model = f"{dialect}-{format_name}-{client}-{'stream' if streamed else 'whole'}"
    is_asked_to_stream = streamed or client != dialect or format_name not in ("standard", "auto")
    if format_name == "standard":
        answer: Any = ("Let me look. ", CALLS)
    else:
        written_as = "kimi" if format_name == "auto" else format_name
        answer = ("Let me look. " + write_calls(written_as, CALLS), ())
    limit = {"error": {"type": "rate_limit_error", "message": "slow down", "code": None}}
    script = upstream.script(
        model,
        says(dialect, *answer, streamed=is_asked_to_stream, model=model),
        says(dialect, "A pier < a ship.", streamed=is_asked_to_stream, model=model),
        whole({"type": "error", **limit}, 429),
        _broken_off(dialect, model) if is_asked_to_stream else _cut_document(dialect),
    )
    sdk = CLIENTS[client](gateway.url)
    history = [sdk.question("What is this?")]
    first = sdk.ask(model, history, streamed=streamed)
    assert [(name, given) for _, name, given in first.calls] == [
        (call.name, call.arguments) for call in CALLS
    ]
    assert (first.text.strip(), first.stop) == ("Let me look.", STOPS[client][0])
    assert len({call_id for call_id, _, _ in first.calls}) == 2
    history += [first.message, *sdk.results(first)]
    second = sdk.ask(model, history, streamed=streamed)
    assert (second.text, second.calls, second.stop) == ("A pier < a ship.", [], STOPS[client][1])
    sent = script.last.json
    assert bool(sent.get("stream")) is is_asked_to_stream
    ids, pictures = _calls_and_images(dialect, sent)
    assert pictures == 2
    if format_name == "kimi" and dialect == "openai":
        assert ids == ["functions.look:0", "functions.write:1"]
    elif format_name == "standard":
        assert ids == [call.id for call in CALLS]
    with pytest.raises(sdk.errors, match="slow down") as refused:
        sdk.ask(model, history, streamed=streamed)
    assert refused.value.status_code == 429
    with pytest.raises(sdk.errors):
        sdk.ask(model, history, streamed=streamed)
    sdk.close()


def _calls_and_images(dialect: str, body: dict[str, Any]) -> tuple[list[str], int]:
    """Return the ids of the calls in an upstream's request, and the number of images."""
    pictures = len(re.findall(re.escape(PICTURE), json.dumps(body)))
    if dialect == "anthropic":
        blocks = [b for m in body["messages"] for b in m["content"] if isinstance(b, dict)]
        calls = [(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
    else:
        calls = [
            (c["id"], c["function"]["name"], json.loads(c["function"]["arguments"]))
            for message in body["messages"]
            for c in message.get("tool_calls") or ()
        ]
        results = [m["tool_call_id"] for m in body["messages"] if m["role"] == "tool"]
    assert [(name, given) for _, name, given in calls] == [(c.name, c.arguments) for c in CALLS]
    assert results == [call_id for call_id, _, _ in calls]
    return results, pictures


def _broken_off(dialect: str, model: str) -> list[Any]:
    """An answer that fails in the middle: one dialect reports an error, the other just stops."""
    events = [*stream(dialect, "It goes " * 200, model=model)]
    if dialect == "anthropic":
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        failed = b"event: error\ndata: %b\n\n" % json.dumps(error).encode()
        return reply(b"".join(events[:4]), failed)
    return reply(b"".join(events[:3]), Close, ends=False)


def _cut_document(dialect: str) -> list[Any]:
    return reply(b'{"id": "x", "content": [{"type": "te', Close, content_type="application/json")
