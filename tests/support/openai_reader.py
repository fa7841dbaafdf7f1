"""Reads OpenAI answers as strictly as the strictest client."""

import json
from collections.abc import Collection
from typing import Any

from openai.types.chat import ChatCompletionChunk
from pydantic import BaseModel

# Fields beyond OpenAI's that may be present: its API has no reasoning, and its package has no type
# for a streamed call of a custom tool, although it has one for complete answers.
EXTRAS = {"reasoning_content", "reasoning_details", "custom"}
# Fields that OpenRouter adds, in the parts of its stream that are passed on unchanged.
OPENROUTER_FIELDS = {"provider", "native_finish_reason", "reasoning"}
DONE = b"data: [DONE]\n\n"


class Answer:
    """An answer, read chunk by chunk."""

    def __init__(self) -> None:
        self.text = ""
        self.reasoning = ""
        self.calls: list[dict[str, str]] = []
        self.finish: str | None = None
        self.usage: dict[str, Any] | None = None
        self.head: tuple[str, str, int] = ("", "", 0)


def payloads(body: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects of a stream, and check its terminator."""
    assert body.endswith(DONE)
    assert body.count(DONE) == 1
    lines = body.removesuffix(DONE).decode().split("\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data:")]


def read(body: bytes, *, theirs: Collection[str] = ()) -> Answer:
    """Return the answer, and fail where a strict client would.

    `theirs` are additional fields of the upstream that are passed on.
    """
    answer = Answer()
    found = payloads(body)
    chunks = [validated(payload, theirs) for payload in found]
    assert len({(chunk.id, chunk.model, chunk.created) for chunk in chunks}) == 1
    answer.head = (chunks[0].id, chunks[0].model, chunks[0].created)
    for position, (payload, chunk) in enumerate(zip(found, chunks, strict=True)):
        if not chunk.choices:
            assert position == len(chunks) - 1
            answer.usage = payload["usage"]
            continue
        assert "usage" not in payload
        [choice] = payload["choices"]
        assert answer.finish is None
        answer.finish = choice["finish_reason"]
        _read_delta(choice["delta"], answer)
    assert answer.finish
    return answer


def validated(payload: dict[str, Any], theirs: Collection[str] = ()) -> ChatCompletionChunk:
    """Return a chunk as the type of the official package, and check for additional fields."""
    text = json.dumps(payload).replace('"type": "custom"', '"type": "function"')
    chunk = ChatCompletionChunk.model_validate(json.loads(text), strict=True)
    check_extras(chunk, theirs)
    return chunk


def check_extras(model: BaseModel, theirs: Collection[str] = ()) -> None:
    assert set(model.model_extra or {}) <= {*EXTRAS, *theirs}
    for name in model.model_fields_set:
        value = getattr(model, name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, BaseModel):
                check_extras(item, theirs)


def _read_delta(delta: dict[str, Any], answer: Answer) -> None:
    assert isinstance(delta.get("content", ""), str)
    answer.text += delta.get("content", "")
    answer.reasoning += delta.get("reasoning_content", delta.get("reasoning", ""))
    for entry in delta.get("tool_calls", ()):
        index = entry["index"]
        if index == len(answer.calls):
            function = entry[entry["type"]]
            call = {"id": entry["id"], "type": entry["type"], "name": function["name"], "text": ""}
            answer.calls.append(call)
        call = answer.calls[index]
        assert index == len(answer.calls) - 1
        assert ("id" in entry) == ("type" in entry) == (not call["text"] and "id" in entry)
        field = "arguments" if call["type"] == "function" else "input"
        call["text"] += entry[call["type"]][field]
