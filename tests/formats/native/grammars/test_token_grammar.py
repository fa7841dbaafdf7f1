"""Calls between special tokens: of Kimi and DeepSeek."""

import json

import pytest

from formats import NoticeCode, Tool, Toolbox, collect
from formats.conversation import Text
from tests.support.wire import cuts, decode, event_reads, text_from

TOOLS = Toolbox([Tool("f", None, b'{"properties": {"x": {"type": "integer"}}}')])
KIMI = {
    "section": "<|tool_calls_section_begin|>",
    "call": "<|tool_call_begin|>",
    "arguments": "<|tool_call_argument_begin|>",
    "end": "<|tool_call_end|>",
    "section_end": "<|tool_calls_section_end|>",
}
DEEPSEEK = {
    "section": "<｜tool▁calls▁begin｜>",
    "call": "<｜tool▁call▁begin｜>",
    "arguments": "<｜tool▁sep｜>",
    "end": "<｜tool▁call▁end｜>",
    "section_end": "<｜tool▁calls▁end｜>",
}
TOKENS = pytest.mark.parametrize(
    ("format_name", "tokens"), [("kimi", KIMI), ("deepseek", DEEPSEEK)]
)
PROSE = "and then the model writes a header, which names a tool, " * 6


def read(text, format_name):
    """Return the reply, which is the same at any split."""
    replies = [
        collect(
            decode(
                event_reads(text_from("openai", pieces, "content")),
                format_name=format_name,
                tools=TOOLS,
            )
        )
        for pieces in cuts(text, 3)
    ]
    assert all(reply.parts == replies[0].parts for reply in replies)
    return replies[0]


@pytest.mark.parametrize("header", ["the time is 10:30", "undeclared:0", "say: ", ""])
def test_t3_arguments_without_opening_tokens_need_a_declared_name(header):
    """T3"""
    reply = read(header + KIMI["arguments"] + '{"x": 1}' + KIMI["end"], "kimi")
    assert reply.parts == [Text(header + '{"x": 1}')]
    assert reply.faults == []


def test_t3_arguments_after_a_declared_name_are_a_call():
    """T3"""
    reply = read("functions.f:0" + KIMI["arguments"] + '{"x": 1}' + KIMI["end"], "kimi")
    assert [part.name for part in reply.parts[1:]] == ["f"]


@TOKENS
def test_t3_a_header_of_300_characters_is_a_fault_and_no_text(format_name, tokens):
    """T3"""
    call = tokens["call"] + "{}" + tokens["arguments"] + '{{"x": 1}}' + tokens["end"]
    long, short = (
        call.format("x" * 300),
        call.format("functions.f:0" * (format_name == "kimi") or "f"),
    )
    for text in (long + short, tokens["section"] + long + short + tokens["section_end"]):
        reply = read(f"Hm. {text}", format_name)
        assert reply.faults == ["bad_header"]
        assert [part for part in reply.parts if isinstance(part, Text)] == [Text("Hm. ")]


@TOKENS
def test_t6_a_section_without_a_call_is_dropped(format_name, tokens):
    """T6"""
    for blank in ("", " \n"):
        reply = read("Done." + tokens["section"] + blank + tokens["section_end"], format_name)
        assert reply.parts == [Text("Done.")]
        assert NoticeCode.MARKUP_REMOVED in [notice.code for notice in reply.notices]


@TOKENS
def test_t6_prose_between_tokens_is_kept_with_both_of_them(format_name, tokens):
    """T6"""
    section, call = tokens["section"], tokens["call"]
    for text in (
        section + "gibberish" + tokens["section_end"],
        section + PROSE + tokens["section_end"],
        call + ", " + PROSE + tokens["end"],
        section + call + PROSE + tokens["arguments"] + tokens["end"] + tokens["section_end"],
        f"`{section}` and {tokens['section_end']}",
    ):
        assert read(text, format_name).parts == [Text(text)], text


@TOKENS
def test_t6_only_the_closer_of_an_opener_that_is_text_is_kept(format_name, tokens):
    """T6"""
    end = tokens["section_end"]
    text = tokens["section"] + "gibberish" + end
    assert read(f"{text} or {end}.", format_name).parts == [Text(f"{text} or .")]
    name = "functions.f:0" if format_name == "kimi" else "f"
    call = tokens["call"] + name + tokens["arguments"] + '{"x": 1}' + tokens["end"]
    reply = read(tokens["section"] + PROSE + call + end + " So.", format_name)
    assert [part.text for part in reply.parts if isinstance(part, Text)] == [
        tokens["section"] + PROSE, " So.",
    ]  # fmt: skip
    assert [json.loads(part.arguments) for part in reply.parts[1:2]] == [{"x": 1}]
