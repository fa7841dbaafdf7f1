"""Native markup that reaches the client as text gives a notice, at any split."""

import pytest

from formats import Notice, NoticeCode
from tests.support.wire import cuts, decode, event_reads, reply_from, stream

MARKUP = {
    "kimi": "Let me look. <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0",
    "cohere": "Go.<|START_ACTION|>[{",
    "gemma": "Go.<|tool_call>call:f{}<tool_call|>",
    "llama": 'Go. <|python_start|>[f(a="x")]<|python_end|>',
    "lfm": 'Go. <|tool_call_start|>[f(a="x")]<|tool_call_end|>',
    "harmony": "Go.<|channel|>commentary to=functions.f",
    "deepseek": "x<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f",
    "qwen": 'I will.\n<tool_call>\n{"name": "f"}\n</tool_call>',
    "glm": "<tool_call>f<arg_key>a</arg_key>",
    "minimax": '<minimax:tool_call><invoke name="f">',
    "seed": "<seed:tool_call>\n<function",
    "step": "<｜tool_calls_begin｜><steptml:invoke",
    "granite": '<|tool_call|>[{"name": "f"}]',
    "internlm": '<|action_start|><|plugin|>{"name": "f"}',
    "jamba": '<tool_calls>\n[{"name": "f"}]',
    "longcat": '<longcat_tool_call>{"name": "f"}',
    "mistral": '[TOOL_CALLS][{"name": "f"}]',
    "nemotron": '<TOOLCALL> [{"name": "f"}]',
}
PLAIN_TEXTS = [
    "An array is a[0] < b[1], and <b>bold</b> is HTML.",
    "Qwen writes `<tool_call>{` around its calls, Kimi `<|tool_call_begin|>`.",
    "The tag <tool_call> alone is a word.",
    "<" * 5000,
    "[" * 5000,
]


@pytest.mark.parametrize("family", MARKUP)
def test_markup_gives_a_notice_at_any_split_and_passes_unchanged(family):
    for pieces in cuts(MARKUP[family]):
        reply = reply_from(event_reads(stream(*({"content": piece} for piece in pieces))))
        assert reply.notices == [Notice(NoticeCode.NATIVE_MARKUP_SEEN, family)]
        assert reply.parts[0].text == MARKUP[family]


def test_minimax_m3_is_named_at_any_split():
    for pieces in cuts("Hm. ]<]minimax[>[<tool_call>"):
        reply = reply_from(event_reads(stream(*({"content": piece} for piece in pieces))))
        assert reply.notices == [Notice(NoticeCode.NATIVE_MARKUP_SEEN, "minimax")]


@pytest.mark.parametrize("text", PLAIN_TEXTS)
def test_text_without_calls_gives_no_notice(text):
    for pieces in cuts(text, 3):
        body = stream(*({"content": piece} for piece in pieces))
        assert reply_from(event_reads(body)).notices == []


def test_markup_of_another_family_gives_a_notice():
    events = decode(stream({"content": MARKUP["qwen"]}), format_name="kimi")
    assert Notice(NoticeCode.NATIVE_MARKUP_SEEN, "qwen") in events


def test_markup_that_its_own_format_leaves_as_text_gives_no_notice():
    text = "Kimi opens with <|tool_calls_section_begin|> and says no more."
    events = decode(stream({"content": text}), format_name="kimi")
    assert NoticeCode.NATIVE_MARKUP_SEEN not in [e.code for e in events if isinstance(e, Notice)]
