"""What is made of tools and system prompts is made once, and little of it is kept."""

import pytest

from formats.complexity import Complexity
from formats.conversation import Text, Tool
from formats.tool_cache import ParsedTools, cached_by_system, cached_by_text, cached_by_tools


def counted(result):
    made = []

    def make(value):
        made.append(value)
        return result

    return make, made


def test_the_same_tools_are_processed_once():
    make, made = counted(7)
    remembered = cached_by_tools(make)
    tools = (Tool("t", "does it", b"{}"),)
    assert [remembered(tools), remembered((Tool("t", "does it", b"{}"),))] == [7, 7]
    remembered((Tool("t", "does it", b"{ }"),))
    remembered((Tool("t", "does it", b"{}", is_custom=True),))
    assert len(made) == 3


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
    make, made = counted(7)
    remembered = cached_by_tools(make)
    assert [remembered(large), remembered(large)] == [7, 7]
    assert len(made) == 2


def test_a_text_is_parsed_once_unless_it_is_large():
    make, made = counted(ParsedTools(()))
    remembered = cached_by_text(lambda text, most: make((text, most)))
    for text in (b"[]", b"[]", b" " * 200_000, b" " * 200_000):
        remembered(text, Complexity())
    assert len(made) == 3
    remembered(b"[]", Complexity(depth=3))  # what may be kept differs
    assert len(made) == 4


def test_the_number_of_cached_tools_is_limited():
    make, made = counted(7)
    remembered = cached_by_tools(make)
    several = [(Tool(str(number), None, b"{}"),) for number in range(100)]
    for tools in (*several, several[0]):
        remembered(tools)
    assert len(made) == 101


def test_texts_that_differ_in_any_byte_are_distinguished():
    remembered = cached_by_text(lambda text, most: ParsedTools((Tool("t", None, text),)))
    text = bytes(range(256)) * 8
    for at in (*range(0, len(text), 37), len(text) - 1):
        for other in (text, text[:at] + b"?" + text[at + 1 :]):
            assert remembered(other, Complexity()).tools[0].schema == other


def test_a_system_prompt_is_processed_once_unless_it_is_large():
    make, made = counted(7)
    remembered = cached_by_system(make)
    prompts = [("a", "bc"), ("a", "bc"), ("a", "bd"), ("ab", "c"), (), ()]
    large = [("a" * 300_000,), ("é" * 70_000,), ("a",) * 2000]
    for prompt in (*prompts, *large, *large):
        assert remembered(tuple(map(Text, prompt))) == 7
    assert [len(prompt) for prompt in made] == [2, 2, 2, 0, *[1, 1, 2000] * 2]


def test_the_number_of_cached_system_prompts_is_limited():
    make, made = counted(7)
    remembered = cached_by_system(make)
    for size in (*range(100), 0):
        remembered((Text("a" * size),))
    assert len(made) == 101
