"""Calls as JSON envelopes: one, several or an array, between tags or after a token."""

import json

import pytest

from formats import FORMATS, CallFault, NoticeCode, TextDelta, Tool, Toolbox
from formats.conversation import Text, ToolCall
from formats.events import ToolCallDelta
from formats.native.rescue import CallRescue
from tests.support.wire import cuts, event_reads, reply_from, stream

TOOLS = Toolbox([Tool("f", None, b"{}"), Tool("g", None, b"{}")])


def block(content):
    return f"<tool_call>{content}</tool_call>"


def replies(text, format_name="qwen"):
    """The replies to a text at several splits."""
    for pieces in cuts(text):
        body = stream(*({"content": piece} for piece in pieces))
        yield reply_from(event_reads(body), format_name=format_name, tools=TOOLS)


def parts(reply):
    return [
        part.text if isinstance(part, Text) else (part.name, json.loads(part.arguments))
        for part in reply.parts
        if isinstance(part, Text | ToolCall)
    ]


def test_an_array_that_no_tag_ends_leaves_no_bracket_in_the_text():
    for reply in replies('<tool_call>[{"name": "f", "arguments": {}}] and on'):
        assert parts(reply) == [("f", {}), " and on"]


def test_prose_between_blocks_whose_end_is_missing_is_kept():
    text = '<tool_call>{"name": "f"} then <tool_call>{"name": "g"}'
    for reply in replies(text):
        assert parts(reply) == [("f", {}), " then ", ("g", {})]


def test_noise_before_the_end_of_a_block_is_removed_with_a_notice():
    for reply in replies(block('[{"name": "f"}}], ok') + " bye"):
        assert parts(reply) == [("f", {}), " bye"]
        assert NoticeCode.MARKUP_REMOVED in [notice.code for notice in reply.notices]


@pytest.mark.parametrize(
    "before", ['"id": "a1B2c3D4e", ', '"type": "function", "id": "a1B2c3D4e", ']
)
@pytest.mark.parametrize("key", ["name", "tool_name"])
def test_arguments_stream_after_an_id_and_a_type_and_the_id_is_kept(key, before):
    native = FORMATS["qwen"]
    assert native
    rescue = CallRescue(native, TOOLS)
    text = f'<tool_call>{{{before}"{key}": "f", "parameters": {{"a": "some'
    events = rescue.feed([TextDelta(text)])
    assert "".join(event.json for event in events if isinstance(event, ToolCallDelta)) == (
        '{"a": "some'
    )
    for reply in replies(text + ' text"}}</tool_call>'):
        assert [part.id for part in reply.parts] == ["a1B2c3D4e"]
        assert parts(reply) == [("f", {"a": "some text"})]


def test_the_id_of_an_envelope_that_is_held_is_kept():
    for reply in replies(block('{"arguments": {"a": 1}, "tool_call_id": "7", "name": "f"}')):
        assert [part.id for part in reply.parts] == ["7"]


@pytest.mark.parametrize("name", ['""', '" "', "null", "3"])
def test_an_envelope_without_a_usable_name_fails(name):
    for reply in replies(block(f'{{"name": {name}, "arguments": {{"a": 1}}}}')):
        assert reply.faults == [CallFault.MISSING_NAME]
        assert parts(reply) == []


def test_a_held_envelope_that_is_cut_is_a_fault_and_not_an_empty_block():
    for reply in replies('<tool_call>{"arguments": {"a": 1}, "na'):
        assert reply.faults == [CallFault.TRUNCATED]
        assert NoticeCode.MARKUP_REMOVED not in [notice.code for notice in reply.notices]


def test_text_that_only_resembles_markers_passes_without_being_held():
    native = FORMATS["qwen"]
    assert native
    rescue = CallRescue(native, TOOLS)
    rescue.feed([TextDelta("text")])
    assert rescue.try_pass(TextDelta("if a < b: <b>bold</b>"))
    assert not rescue.try_pass(TextDelta("the end of it is <too"))
