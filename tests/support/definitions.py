"""Hostile definitions of formats, and texts that are made of their markers."""

import copy
import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

from formats import BUILT_IN_DEFINITIONS
from tests.support.operator_formats import TAGS, TOKENS

ACCEPTED = [*map(json.dumps, [*BUILT_IN_DEFINITIONS.values(), TOKENS, TAGS])]
"""Definitions that are accepted, as JSON."""
_VALUES: list[Any] = [
    *[None, True, 0, 1.5, "", "x", [], {}, [[]], {"a": 1}, ["<|tool|>"], "<|tool|>", "marked"],
    *["<{name}>", "{name}", "<f={name}>", "<f={name}x>", "<f {name}{key}>", "<{blank}{blank}ab>"],
    *["<|ab{attributes}|>", '<ab c="{name}" d="{key}">', '<ab c="{type}">', "<ab={name}", "{{}}"],
    *[
        "<tool_call>",
        "</tool_call>",
        "<think>",
        "</think>",
        "<|a|>b",
        "<|a|>",
        "<|a|>bc",
        "[f(",
        "`",
    ],
    *[
        "\x00abcd",
        "\ud800abcd",
        "\u200babcd",
        "((((((((",
        "<<<<<<<<",
        "<" * 48,
        "a" * 999,
        "*",
        "**",
    ],
    *[
        "<ab{space}cd>",
        "<{bars}{word}>",
        "functools{array}",
        "<ab{tag}",
        "<x{suffix}>",
        "</{key}>ab",
    ],
    *[
        "[[{name}]]",
        "[[{name}]][ID]{id}",
        "name",
        "counted_name",
        "tags",
        "tokens",
        "🛠call🛠",
        "a.*b",
    ],
]
_KEYS = [
    "kind",
    "markers",
    "BLOCK",
    "BLOCK_END",
    "FUNCTION",
    "special",
    "bare",
    "grammars",
    "x",
    "",
]


def hostile_definition(random: Random, data: bytes = b"") -> Any:
    """Return `data` if it is JSON that may be a definition, or one with a few random changes."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        return document
    document = json.loads(random.choice(ACCEPTED))
    for _ in range(random.randrange(3)):
        other = json.loads(random.choice(ACCEPTED))
        document["grammars"].append(random.choice(other["grammars"]))
    for _ in range(random.randrange(5)):
        holder, key = random.choice(list(_places(document)))
        match random.randrange(8):
            case 0 if isinstance(holder, dict):
                holder.pop(key)
            case 1 if isinstance(holder, dict):
                holder[random.choice(_KEYS)] = holder.pop(key)
            case 2 | 3 if isinstance(holder[key], str) and holder[key]:
                holder[key] = _mutated(holder[key], random)
            case 4 | 5 if isinstance(holder, list) and isinstance(holder[key], str):
                others = [text for _, text in _texts(document)]
                holder[key] = _mutated(random.choice(others), random)
            case 6:
                holder[key] = _value_at_random_place(random)
            case _:
                holder[key] = copy.deepcopy(random.choice(_VALUES))
        if not list(_places(document)):
            break
    return document


def _value_at_random_place(random: Random) -> Any:
    holder, key = random.choice(list(_places(json.loads(random.choice(ACCEPTED)))))
    return holder[key]


def _mutated(text: str, random: Random) -> str:
    at, to = sorted(random.randrange(len(text) + 1) for _ in range(2))
    match random.randrange(4):
        case 0:
            return text[:at] + text[to:]
        case 1:
            return text[:at] + text[at:to] * 2 + text[to:]
        case 2:
            return text[:at] + random.choice(["{name}", "{blank}", "{key}", "|", ">", "x", " "])
    return text[:at] + random.choice("<>|[]{}()\"'\\/:;,.=%^$*+-?#ab1_ \n｜▁✿") + text[at:]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in a document, as what holds it and its key."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in [*entries]:
        yield value, key
        if isinstance(item, dict | list):
            yield from _places(item)


def text_made_of(document: Any, random: Random) -> str:
    """Return a text made of the markers of a definition, whole and cut, and of what calls hold."""
    markers = [text for _, text in _texts(document)]
    inside = ["f", "ping", '{"a": 1}', '{"name": "ping", "arguments": {"a": 1}}', "prose, ", "\n"]
    inside += [
        " ",
        "`",
        "<",
        ">",
        '"',
        "a",
        "ping(a=1)",
        "[",
        "]",
        "}",
        '{"a": "',
        "call:ping{a:1}",
    ]
    written = []
    for _ in range(random.randrange(1, 24)):
        if markers and random.random() < 0.65:
            marker = re.sub(
                r"\{(\w+)\}", lambda found: _filled(found[1], random), random.choice(markers)
            )
            if random.random() < 0.15:
                marker = marker[: random.randrange(len(marker) + 1)]
            written.append(marker)
        else:
            written.append(random.choice(inside))
    return "".join(written)


def _filled(placeholder: str, random: Random) -> str:
    return random.choice(
        {
            "name": ["ping", "ferry_times", "", "f g"],
            "key": ["a", "b", "", "/a"],
            "type": ["string", "number"],
            "blank": ["", " ", "\n"],
            "gap": ["", "\\n"],
            "space": ["_", " ", "\\_", "▁"],
            "bars": ["|", " ｜｜ "],
            "attributes": ["", ' a="b"', " a b"],
            "word": ["calls", "invoke"],
            "suffix": ["", ":x"],
            "colon": [":", " ："],
        }.get(placeholder, ["", "x"])
    )


def _texts(document: Any) -> Iterator[tuple[Any, str]]:
    for holder, key in _places(document):
        if isinstance(holder, list) and isinstance(holder[key], str):
            yield key, holder[key]
