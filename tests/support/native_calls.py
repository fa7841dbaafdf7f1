"""Calls in the text of models of every native format: recorded vectors, and generated ones."""

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from formats import DIALECTS, FORMATS, Event, Reply, Tool, Toolbox
from formats.conversation import Reasoning, Text, ToolCall
from tests.support.wire import OPTIONS

_ALL = Path(__file__).parents[1] / "fixtures"
FIXTURES = _ALL / "native"
KIMI_LOG = (_ALL / "chat/kimi-calls-in-reasoning-token-by-token.sse").read_bytes()
"""A recorded stream that has each token of two calls in a chunk of its own."""


def _filled(value: Any, big: dict[str, Any] | None, *, decoded: bool) -> Any:
    if big is None:
        return value
    if isinstance(value, str):
        unit = big.get("decoded", big["char"]) if decoded else big["char"]
        return value.replace("{BIG}", unit * big["count"])
    if isinstance(value, dict):
        return {key: _filled(item, big, decoded=decoded) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, big, decoded=decoded) for item in value]
    return value


def vectors_of(format_name: str) -> list[dict[str, Any]]:
    vectors = []
    for line in (FIXTURES / f"{format_name}.jsonl").read_text().splitlines():
        vector = json.loads(line)
        big = vector.get("big")
        if "text_template" in vector:
            vector["text"] = _filled(vector["text_template"], big, decoded=False)
        vector["expect"] = _filled(vector["expect"], big, decoded=True)
        vectors.append(vector)
    return vectors


VECTORS = [vector for name in FORMATS for vector in vectors_of(name)]
IN_TEXT = [vector for vector in VECTORS if "deltas" not in vector]
IN_DELTAS = [vector for vector in VECTORS if "deltas" in vector]


def vector_id(vector: dict[str, Any]) -> str:
    return str(vector["id"])


def text_and_calls(reply: Reply, channel: str) -> dict[str, Any]:
    """The text and calls of a reply, in the form of a vector's expectation."""
    run = Text if channel == "content" else Reasoning
    return {
        "text": "".join(part.text for part in reply.parts if isinstance(part, run)),
        "calls": [
            {"name": part.name, "arguments": json.loads(part.arguments)}
            for part in reply.parts
            if isinstance(part, ToolCall)
        ],
    }


def expected(vector: dict[str, Any]) -> dict[str, Any]:
    calls = [{"name": c["name"], "arguments": c["arguments"]} for c in vector["expect"]["calls"]]
    return {"text": vector["expect"]["text"], "calls": calls}


NATIVE = [name for name, native in FORMATS.items() if native]

# Fragments of what models of each format write, from which hostile text is made.
SHARDS = sorted(
    {
        shard
        for vector in IN_TEXT
        if len(vector["text"]) < 1000
        for shard in re.findall(r"<[^<>]{1,40}>|✿\w+✿:?|[{}\[\]\",:`]|\w+|\s+", vector["text"])
    }
)
garbage = st.lists(st.sampled_from(SHARDS), max_size=30).map("".join)
whole = st.sampled_from([vector["text"] for vector in IN_TEXT if len(vector["text"]) < 1000])
TOOLS = Toolbox(
    Tool(name, None, b'{"type":"object","properties":{"a":{"type":"integer"},"b":{}}}')
    for name in ("ping", "ferry_times")
)

CALLS = {
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.{name}:0"
    "<|tool_call_argument_begin|>{json}<|tool_call_end|><|tool_calls_section_end|>",
    "qwen": '<tool_call>\n{{"name": "{name}", "arguments": {json}}}\n</tool_call>',
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{json}"
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
}


def write_call(format_name: str, name: str, given_arguments: object) -> str:
    """A call as a model of the format writes it."""
    return CALLS[format_name].format(name=name, json=json.dumps(given_arguments))


def encoded(events: list[Event], dialect: str) -> bytes:
    return DIALECTS[dialect].encoder(OPTIONS).feed(events)
