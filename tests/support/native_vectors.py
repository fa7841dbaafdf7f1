"""Vectors of native formats: what models wrote, and what must come of it.

`tests/fixtures/native/README.md` describes the fields. Every file there is read; a vector names its
format itself, so a format may have several files.
"""

import json
from pathlib import Path
from typing import Any

from formats import FORMATS, Reply, Toolbox
from formats.conversation import Reasoning, Text, ToolCall

_FOLDER = Path(__file__).parents[1] / "fixtures/native"


def _filled(value: Any, big: dict[str, Any] | None, *, decoded: bool) -> Any:
    """Replace {BIG} in all strings of `value`."""
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


def _read(line: str) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads(line)
    big = vector.get("big")
    if "text_template" in vector:
        vector["text"] = _filled(vector["text_template"], big, decoded=False)
    vector["expect"] = _filled(vector["expect"], big, decoded=True)
    return vector


VECTORS = [
    _read(line)
    for path in sorted(_FOLDER.glob("*.jsonl"))
    for line in path.read_text().splitlines()
]
IN_TEXT = [vector for vector in VECTORS if "deltas" not in vector]
IN_DELTAS = [vector for vector in VECTORS if "deltas" in vector]


def vectors_of(format_name: str) -> list[dict[str, Any]]:
    assert format_name in FORMATS
    return [vector for vector in VECTORS if vector["format"] == format_name]


def vector_id(vector: dict[str, Any]) -> str:
    return str(vector["id"])


def text_and_calls(reply: Reply, channel: str, tools: Toolbox | None = None) -> dict[str, Any]:
    """The text and calls of a reply, in the form of a vector's expectation.

    `tools` resolves the names, if the reply comes from before delivery.
    """
    run = Text if channel == "content" else Reasoning
    return {
        "text": "".join(part.text for part in reply.parts if isinstance(part, run)),
        "calls": [
            {
                "name": tools.resolve(part.name) if tools else part.name,
                "arguments": json.loads(part.arguments),
            }
            for part in reply.parts
            if isinstance(part, ToolCall)
        ],
    }


def reasoning(reply: Reply) -> str:
    return "".join(part.text for part in reply.parts if isinstance(part, Reasoning))


def expected(vector: dict[str, Any]) -> dict[str, Any]:
    calls = [{"name": c["name"], "arguments": c["arguments"]} for c in vector["expect"]["calls"]]
    return {"text": vector["expect"]["text"], "calls": calls}
