"""Results for tools and system prompts are computed once, and the caches are limited."""

import pytest

from formats.complexity import Complexity
from formats.conversation import Text, Tool
from formats.tool_cache import ParsedTools, cached_by_system, cached_by_text, cached_by_tools


def recorder_of(result):
    calls = []

    def make(value):
        calls.append(value)
        return result

    return make, calls


def test_the_same_tools_are_processed_once():
    make, calls = recorder_of(7)
    cached = cached_by_tools(make)
    tools = (Tool("t", "does it", b"{}"),)
    assert [cached(tools), cached((Tool("t", "does it", b"{}"),))] == [7, 7]
    cached((Tool("t", "does it", b"{ }"),))
    cached((Tool("t", "does it", b"{}", is_custom=True),))
    assert len(calls) == 3


@pytest.mark.parametrize(
    "large",
    [
        (Tool("n" * 200_000, None, b"{}"),),
        (Tool("t", "d" * 200_000, b"{}"),),
        (Tool("t", None, b" " * 200_000 + b"{}"),),
        tuple(Tool(str(number), None, b"{}") for number in range(1000)),
    ],
    ids=["name", "description", "schema", "number"],
)
def test_large_tools_are_not_cached(large):
    make, calls = recorder_of(7)
    cached = cached_by_tools(make)
    assert [cached(large), cached(large)] == [7, 7]
    assert len(calls) == 2


def test_a_text_is_parsed_once_unless_it_is_large():
    make, calls = recorder_of(ParsedTools(()))
    cached = cached_by_text(lambda text, limits: make((text, limits)))
    for text in (b"[]", b"[]", b" " * 200_000, b" " * 200_000):
        cached(text, Complexity())
    assert len(calls) == 3
    cached(b"[]", Complexity(depth=3))  # another limit is another entry
    assert len(calls) == 4


def test_the_number_of_cached_tools_is_limited():
    make, calls = recorder_of(7)
    cached = cached_by_tools(make)
    several = [(Tool(str(number), None, b"{}"),) for number in range(100)]
    for tools in (*several, several[0]):
        cached(tools)
    assert len(calls) == 101


def test_texts_that_differ_in_any_byte_are_distinguished():
    cached = cached_by_text(lambda text, most: ParsedTools((Tool("t", None, text),)))
    text = bytes(range(256)) * 8
    for at in (*range(0, len(text), 37), len(text) - 1):
        for other in (text, text[:at] + b"?" + text[at + 1 :]):
            assert cached(other, Complexity()).tools[0].schema == other


def test_a_system_prompt_is_processed_once_unless_it_is_large():
    make, calls = recorder_of(7)
    cached = cached_by_system(make)
    prompts = [("a", "bc"), ("a", "bc"), ("a", "bd"), ("ab", "c"), (), ()]
    large = [("a" * 300_000,), ("é" * 70_000,), ("a",) * 2000]
    for prompt in (*prompts, *large, *large):
        assert cached(tuple(map(Text, prompt))) == 7
    assert [len(prompt) for prompt in calls] == [2, 2, 2, 0, *[1, 1, 2000] * 2]


def test_the_number_of_cached_system_prompts_is_limited():
    make, calls = recorder_of(7)
    cached = cached_by_system(make)
    for size in (*range(100), 0):
        cached((Text("a" * size),))
    assert len(calls) == 101
