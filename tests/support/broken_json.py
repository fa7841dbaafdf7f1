"""Places and values for breaking JSON at random."""

from collections.abc import Iterator
from typing import Any

VALUES: list[Any] = [None, True, False, 0, 1, -1, 7, "", "x", [], {}, [{}], [None], 1.5]
FINISHES = [
    "stop", "length", "tool_calls", "tool_use", "end_turn", "max_tokens", "STOP", "eos", "refusal",
    "content_filter", "function_call",
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))
