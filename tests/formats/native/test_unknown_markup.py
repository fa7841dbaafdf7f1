"""Calls of declared tools in a markup of no known family give a notice, at any split."""

import pytest

from formats import Notice, NoticeCode, Tool, Toolbox
from formats.native.unknown_markup import UnknownMarkup
from tests.support.wire import cuts, decode, event_reads, stream

SCHEMA = b'{"type": "object", "properties": {"harbor": {"type": "string"}}}'
TOOLS = Toolbox([Tool("get_tide", None, SCHEMA)])
CALLS = [
    '<|do|>{"name": "get_tide", "arguments": {"harbor": "Moss"}}<|done|>',
    'Let me look.\n<do>\n[{"id": "a1", "type": "function", "function": {"name": "get_tide"}}]',
    '[TOOL_REQUEST]{"tool": "get_tide", "input": {}}',
    '<do>get_tide<with>{"harbor": "Moss"}</with></do>',
    "<|call|>functions.get_tide:0<|args|>{}",
    "<do>get_tide\n<key>harbor</key>\n<val>Moss</val></do>",
    '<div>\n</div>\n<do>{"name": "get_tide"}',
    '```json\n{}\n```\n<do>{"name": "get_tide"}',
    "A <b>long</b> text. " * 300 + '<do>{"name": "get_tide"}',
]
NOT_CALLS = [
    '{"name": "get_tide", "arguments": {}}',
    '<do>{"name": "another_tool", "arguments": {}}',
    '`<do>{"name": "get_tide"}`',
    '"<do>get_tide{"harbor"}"',
    'It writes:\n```\n<do>{"name": "get_tide"}</do>\n```\n',
    "```python\n" + "x = 1\n" * 800 + '<do>{"name": "get_tide"}</do>\n',
    "<td>get_tide</td><td>harbor</td>",
    "<code>get_tide</code> takes <var>harbor</var>",
    "<b>get_tide <i>day</i></b>",
    '<a href="x">{"name": "get_tide"}</a>',
]
SEEN = Notice(NoticeCode.NATIVE_MARKUP_SEEN, "unknown")


def is_reported(pieces, **options):
    body = stream(*({"content": piece} for piece in pieces))
    return SEEN in decode(event_reads(body), tools=TOOLS, **options)


@pytest.mark.parametrize("text", CALLS)
def test_a_call_of_a_declared_tool_is_reported_at_any_split(text):
    assert [is_reported(pieces) for pieces in cuts(text)] == [True] * 8


@pytest.mark.parametrize("text", NOT_CALLS)
def test_other_text_is_not_reported(text):
    assert [is_reported(pieces) for pieces in cuts(text)] == [False] * 8


def test_without_tools_nothing_is_reported():
    assert SEEN not in decode(stream({"content": CALLS[0]}))


def test_a_call_that_a_known_format_leaves_in_the_text_is_not_reported():
    assert not is_reported([CALLS[0]], format_name="kimi")


@pytest.mark.parametrize("part", ["<a>get_tide", '<a>{"id": "x",', "[TOOL]{", "`", "<", "<a>"])
@pytest.mark.parametrize("before", ["", "```\n"])
def test_little_text_is_held_and_each_character_is_searched_about_once(part, before, monkeypatch):
    searched = 0
    search = UnknownMarkup._search

    def counted_search(markup):
        nonlocal searched
        searched += len("".join(markup._parts))
        search(markup)
        assert len("".join(markup._parts)) < 600

    monkeypatch.setattr(UnknownMarkup, "_search", counted_search)
    text = before + part * 4000
    markup = UnknownMarkup(TOOLS)
    for char in text:
        markup.add(char, "x")
    markup.close()
    assert searched < 1.5 * len(text)
