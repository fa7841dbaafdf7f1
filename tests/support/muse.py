"""A made-up model, `acme/muse-1`, whose format no built-in one reads, and the definition of it."""

import json
from typing import Any

from tests.support.wire import stream

MODEL = "acme/muse-1"
MUSE: dict[str, Any] = {
    "grammars": [{"kind": "envelope", "markers": {"BLOCK": ["<|do|>"], "BLOCK_END": ["<|done|>"]}}],
    "sample": '<|do|>{"name": "get_tide", "arguments": {"harbor": "Moss"}}<|done|>',
}


def muse(**changes: Any) -> dict[str, Any]:
    return {**MUSE, **changes}


def call(harbor: str = "Moss") -> str:
    arguments = json.dumps({"name": "get_tide", "arguments": {"harbor": harbor}})
    return f"Let me look.\n<|do|>{arguments}<|done|>"


def answer(harbor: str = "Moss") -> bytes:
    """The stream of an upstream in which the model calls a tool."""
    return stream({"content": call(harbor)})
