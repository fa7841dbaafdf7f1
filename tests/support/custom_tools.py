"""A custom tool in both of its shapes, and an answer that calls it."""

from tests.support.strategies import pieces
from tests.support.wire import stream

PATCH = '*** Begin Patch\n*** Update File: tide.py\n-a = "1"\n+a = "潮 🌊\\n"\n*** End Patch'
GRAMMAR = 'start: begin_patch hunk+ end_patch\nbegin_patch: "*** Begin Patch" LF'
NESTED = {
    "type": "custom",
    "custom": {
        "name": "ApplyPatch",
        "description": "Edits files.",
        "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": GRAMMAR}},
    },
}
FLAT = {
    "type": "custom",
    "name": "ApplyPatch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
}


def structured(text: str, places: list[int]) -> bytes:
    """A stream that calls the tool with these arguments, split at `places`."""
    fragments = pieces(text, places)
    head = {"index": 0, "id": "call_1", "function": {"name": "ApplyPatch", "arguments": ""}}
    deltas = [{"index": 0, "function": {"arguments": fragment}} for fragment in fragments]
    return stream(*({"tool_calls": [entry]} for entry in (head, *deltas)), finish="tool_calls")
