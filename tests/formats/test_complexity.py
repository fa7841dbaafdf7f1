"""Requests whose JSON is too deep or has too many values are rejected."""

import json
import random
import time
from typing import Any

import pytest

from bench.bodies import body as claude_code_body
from formats import DIALECTS, ClientError, Complexity, TooComplex
from tests.support.wire import nested

LIMITS = Complexity(depth=20, nodes=1000)


def is_refused(body: bytes, limits: Complexity = LIMITS) -> bool:
    """Tell whether a body is rejected as too complex, in every dialect."""
    results = set()
    for dialect in DIALECTS.values():
        try:
            dialect.parse(body, limits)
            results.add(False)
        except ClientError as error:
            results.add(isinstance(error, TooComplex))
    (is_too_complex,) = results  # the same in every dialect
    return is_too_complex


@pytest.mark.parametrize(
    "around",
    [
        (b"", b"", 0),
        (b'{"x":', b"}", 1),
        (b'{"messages":[', b"]}", 2),
        (b'{"tools":[{"input_schema":', b"}]}", 3),
        (b'{"text":"[[[[{{{{\\"[[[[[[{{{{{{[[[[[[[[[[",  "x":', b"}", 1),
        (b'{"text":"\\\\","more":"]]]]]\\\\\\"}}}}}}}}}}}}}","x":', b"}", 1),
        (b'{"text":["]","}","]]]]]]]]]]]]]]]]]]]]]]]]]]]"],"x":', b"}", 1),
        (b'{"messages":{"role":[[]]},"x":', b"}", 1),
        (b'{"x":', b',"x":1}', 1),
        (b'{"tools":[', b'],"messages":[],"tools":[]}', 2),
    ],
)
@pytest.mark.parametrize("opening", [b'{"a":', b"[", b' [ "}]" , ', b'{"]":"[{", "b" :\n'])
def test_the_depth_is_exact_anywhere_and_brackets_in_strings_do_not_count(around, opening):
    before, after, own = around
    assert not is_refused(before + nested(20 - own, opening) + after)
    assert is_refused(before + nested(21 - own, opening) + after)


def test_the_number_of_values_is_exact():
    assert not is_refused(json.dumps([1] * 999).encode())
    assert is_refused(json.dumps([1] * 1000).encode())
    assert is_refused(json.dumps({str(n): n for n in range(1000)}).encode())
    assert not is_refused(json.dumps({"text": "a,[{" * 5000}).encode())
    assert not is_refused(json.dumps({"text": '","' * 5000}).encode())


def test_depth_and_size_agree_with_a_json_parser():
    chance = random.Random(7)

    def value(levels: int) -> object:
        kind = chance.random()
        if levels == 0 or kind < 0.3:
            return chance.choice(["x", '"[{', "\\", "]}\\", 1, None, "},{", ""])
        if kind < 0.65:
            return [value(levels - 1) for _ in range(chance.randrange(4))]
        return {chance.choice('a"[\\') + str(n): value(levels - 1) for n in range(3)}

    def depth(results: Any) -> int:
        inner = results if isinstance(results, list) else list(results.values())
        return 1 + max((depth(item) for item in inner if isinstance(item, list | dict)), default=0)

    seen = set()
    for _ in range(300):
        results = {"messages": [value(6)], "tools": value(6), "x": value(6)}
        limits = Complexity(depth=6)
        assert is_refused(json.dumps(results).encode(), limits) is (depth(results) > 6)
        seen.add(depth(results) > 6)
    assert seen == {True, False}


BOMBS = {
    "brackets": b"[" * 8_000_000,
    "pairs": b"[]" * 4_000_000,
    "deep, but not large": b"[" * 100_000 + b"]" * 100_000,
    "quotes": b'"' + b'\\"' * 4_000_000 + b'"',
    "backslashes": b'"' + b"\\" * 8_000_000 + b'"',
    "messages": b'{"messages":[' + b",".join([b"[[]]"] * 49_000) + b"]}",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_checking_hostile_json_takes_little_time(bomb):
    start = time.process_time()
    is_refused(bomb, Complexity())
    assert time.process_time() - start < 1


def test_a_claude_code_request_is_never_counted_exactly(monkeypatch):
    """Counting exactly would cost as much as parsing."""
    monkeypatch.setattr("formats.complexity._structure", None)
    assert not is_refused(claude_code_body("a", stream=True), Complexity())


TEXT = {"type": "text", "text": "hi"}
USE = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
# Blocks with a value that typed decoders leave unread, and the levels around that value.
UNREAD = {
    "arguments": (5, USE | {"input": "HERE"}),
    "cache control": (5, TEXT | {"cache_control": "HERE"}),
    "a document": (6, {"type": "document", "source": {"type": "content", "content": "HERE"}}),
    "an unknown field": (5, TEXT | {"hologram": "HERE"}),
    "an unknown block": (5, {"type": "hologram", "x": "HERE"}),
    "a search result": (
        7,
        {"type": "search_result", "content": [TEXT | {"cache_control": "HERE"}]},
    ),
    "an image's source": (6, {"type": "image", "source": {"type": "file", "x": "HERE"}}),
    "a result": (7, {"type": "tool_result", "tool_use_id": "a", "content": [TEXT | {"x": "HERE"}]}),
}


def request_with(block: dict[str, Any], value: bytes) -> bytes:
    """Return an Anthropic request with the value in a block of its history."""
    role = "assistant" if block["type"] == "tool_use" else "user"
    before = [] if role == "assistant" else [{"role": "assistant", "content": [USE]}]
    messages = [{"role": "user", "content": "hi"}, *before, {"role": role, "content": [block]}]
    fields = {"model": "m", "messages": messages}
    return json.dumps(fields, separators=(",", ":")).encode().replace(b'"HERE"', value)


@pytest.mark.parametrize(("levels", "block"), UNREAD.values(), ids=UNREAD)
@pytest.mark.parametrize("opening", [b'{"a":', b"[", b'{"]":"[{", "b" :\n'])
@pytest.mark.parametrize("limits", [9, 20, 128])
def test_the_depth_is_exact_in_values_that_are_not_decoded(levels, block, opening, limits):
    parse, limits = DIALECTS["anthropic"].parse, Complexity(depth=limits)
    if levels < limits.depth:
        within = request_with(block, b'{"x":' + nested(limits.depth - levels - 1, opening) + b"}")
        try:
            parse(within, limits)
        except ClientError as error:
            assert not isinstance(error, TooComplex)  # noqa: PT017
    with pytest.raises(TooComplex, match=f"more than {limits.depth} levels"):
        parse(request_with(block, b'{"x":' + nested(limits.depth - levels, opening) + b"}"), limits)


def test_a_very_low_limit_is_enforced():
    deepest = request_with(UNREAD["a result"][1] | {"content": [TEXT]}, b"")
    for depth in range(1, 7):
        with pytest.raises(TooComplex):
            DIALECTS["anthropic"].parse(deepest, Complexity(depth=depth))
    DIALECTS["anthropic"].parse(deepest, Complexity(depth=7))


@pytest.mark.parametrize(("_", "block"), UNREAD.values(), ids=UNREAD)
@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xe2\x82"])
def test_values_that_are_not_decoded_must_be_utf8(_, block, bad):
    with pytest.raises(ClientError, match="UTF-8"):
        DIALECTS["anthropic"].parse(request_with(block, b'{"x":"a%bz"}' % bad))


@pytest.mark.parametrize("place", [b'"x":"\xff","x":1', b'"":"\xff","":1', b'"x":1 ,"x":"\xff"'])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_copy_of_a_repeated_field_must_be_utf8(dialect, place):
    body = request_with(TEXT, b"")[:-1] + b"," + place + b"}"
    with pytest.raises(ClientError, match="UTF-8"):
        DIALECTS[dialect].parse(body)
