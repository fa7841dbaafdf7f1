"""Messages with headers: of harmony."""

import pytest

from formats import FORMATS, NoticeCode
from tests.support.native_replies import calls_of, read_text, reasoning_of, text_of

HARMONY = FORMATS["harmony"]
CALL = '<|channel|>commentary to=functions.f<|message|>{"n": 1}<|call|>'


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>commentary to=functions.f ",
        "<|channel|>commentary to=f json",
        "<|channel|>analysis to=functions.f <|constrain|>json",
        "<|channel|>final to=functions.f",
        "<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json",
        "<|start|>assistant<|start|>assistant<|channel|>commentary to=functions.f",
        "<|channel|>commentary to=functions.f<|channel|>commentary <|constrain|>json",
        "<|channel|>commentary to=functions.f<|constrain|>json",
        " to=functions.f<|channel|>commentary",
        "to=functions.f code<|channel|>commentary",
        "<|channel|>commentary to=f <|constrain|>code",
    ],
)
def test_a_recipient_anywhere_in_the_header_makes_a_call(header):
    reply = read_text(HARMONY, header + '<|message|>{"n": 1}<|call|>')
    assert (calls_of(reply), text_of(reply)) == ([("f", '{"n": 1}')], "")


@pytest.mark.parametrize("end", ["", "<|call|>", "<|end|>", "<|return|>", "\n<|ca", " x <|call|>"])
def test_the_end_of_a_call_may_be_missing_or_late(end):
    reply = read_text(HARMONY, CALL.removesuffix("<|call|>") + end)
    assert (calls_of(reply), text_of(reply), reply.faults) == ([("f", '{"n": 1}')], "", [])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('<|channel|>commentary to=functions.f <|constrain|>json{"n": 1}', "bad_header"),
        ("<|channel|>commentary to=functions.f <|end|>", "bad_header"),
        ("<|channel|>commentary to=functions.f" + " x" * 200, "bad_header"),
        ("<|channel|>commentary to=functions.<|message|>{}", "missing_name"),
        ("<|channel|>commentary to=python code<|message|>print(1)<|end|>", "malformed"),
        ("<|channel|>commentary to=f<|message|>[1]<|call|>", "non_object_args"),
        ('<|channel|>commentary to=f<|message|>{"n": <|call|>', "invalid_json"),
        ("<|channel|>commentary to=f<|message|>", "truncated"),
        ("<|channel|>commentary to=f<|message|>{", "truncated"),
        ("<|start|>assistant to=f", "truncated"),
    ],
)
def test_a_broken_call_is_a_fault_and_the_next_one_is_read(text, fault):
    reply = read_text(HARMONY, text)
    assert ([str(f) for f in reply.faults], reply.parts) == ([fault], [])
    if fault != "truncated":
        assert calls_of(read_text(HARMONY, text + "<|call|>" + CALL)) == [("f", '{"n": 1}')]


def test_an_invented_output_is_dropped():
    output = '<|start|>functions.f to=assistant<|channel|>commentary<|message|>{"n": 2}<|end|>'
    reply = read_text(HARMONY, CALL + output + "<|start|>assistant<|channel|>final<|message|>Two.")
    assert (calls_of(reply), text_of(reply)) == ([("f", '{"n": 1}')], "Two.")
    assert NoticeCode.TOOL_OUTPUT_DROPPED in [notice.code for notice in reply.notices]


@pytest.mark.parametrize(
    "text",
    [
        "The <|channel|> token, then <|message|> and <|end|> make a message.",
        "Between `<|start|>` and `<|end|>` is a message.",
        "to=me, and to=you",
        "A call has to=functions.f<|channel|>, and more, in its header.",
    ],
)
def test_prose_about_the_tokens_stays_whole(text):
    assert text_of(read_text(HARMONY, text)) == text


def test_a_message_without_an_end_ends_where_the_next_begins():
    reply = read_text(
        HARMONY, "<|channel|>analysis<|message|>Look.<|start|>assistant<|channel|>final<|message|>A"
    )
    assert (reasoning_of(reply), text_of(reply)) == ("Look.", "A")


def test_messages_in_the_reasoning_stay_reasoning_and_their_calls_are_made():
    text = "Look." + CALL + "<|start|>assistant<|channel|>final<|message|>Done"
    reply = read_text(HARMONY, text, "reasoning")
    assert (calls_of(reply), text_of(reply)) == ([("f", '{"n": 1}')], "")
    assert reasoning_of(reply) == "Look.Done"
