"""Requests to an upstream of the same dialect: only bytes set by the route change."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import DIALECTS, NoticeCode, Target
from formats.json_splice import replace_values
from tests.support.strategies import prose, values

GENUINE = "s" * 200
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])

ANTHROPIC = rb"""
{ "model" : "cl\u0061ude" ,"max_tokens" :100,"temperature":1.0E0,
  "messages":[ {"role":"user","content":"h\u0069 \/ 1.50","model":"claude"}
  , {"content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"} , "new":1.0E3}],"role":"assistant"} ],
  "metadata":{"user_id":null}, "stream":true, "unknown_field":[ 1.00 , {} ],"system":[{"type":"text","text":"x-anthropic-billing-header: a"}]
}
"""
OPENAI = rb"""{ "stream_options" : {"include_usage":true,"odd":1},
 "model":"m", "messages":[ {"role":"user" ,"content":"h\u0069","unknown":0.10} ] , "seed":1.0,"stream":true}"""


def render(dialect, body, target=None, *, stream=True):
    conversation = DIALECTS[dialect].parse(body)
    return DIALECTS[dialect].render(conversation, target or Target(), stream=stream)


@given(
    fields=st.dictionaries(prose, values, max_size=6),
    changes=st.dictionaries(prose, values, min_size=1, max_size=3),
    indent=st.sampled_from([None, 1]),
    escaped=st.booleans(),
)
def test_replacing_values_changes_no_other_byte(fields, changes, indent, escaped):
    fields = {"first": 1, **fields}
    text = json.dumps(fields, indent=indent, ensure_ascii=escaped).encode()
    output = replace_values(text, _fields.decode(text), changes)
    assert output is not None
    assert json.loads(output) == fields | changes
    assert replace_values(text, _fields.decode(text), {}) == text
    if changes.keys().isdisjoint(fields):
        assert output.startswith(text.removesuffix(b"}"))
    back = replace_values(
        output, _fields.decode(output), {n: v for n, v in fields.items() if n in changes}
    )
    assert back is not None
    assert json.loads(back) == changes | fields


def test_a_name_that_parsing_removed_prevents_replacement():
    text = b'{"model":"a","stop_sequences":null}'
    assert replace_values(text, {"model": msgspec.Raw(b'"a"')}, {"model": "b"}) is None


def test_a_repeated_name_prevents_replacement():
    text = b'{"model":"a","model":"a"}'
    assert replace_values(text, _fields.decode(text), {"model": "b"}) is None
    assert (
        json.loads(
            render(
                "anthropic",
                text[:-1] + b',"messages":[{"role":"user","content":"x"}]}',
                Target(model="b"),
            ).body
        )["model"]
        == "b"
    )


@pytest.mark.parametrize(("dialect", "body"), [("anthropic", ANTHROPIC), ("openai", OPENAI)])
def test_a_request_is_forwarded_byte_for_byte(dialect, body):
    assert render(dialect, body).body == body


@pytest.mark.parametrize(
    ("dialect", "body", "spelled"),
    [("anthropic", ANTHROPIC, rb'"cl\u0061ude"'), ("openai", OPENAI, b'"m"')],
)
def test_only_the_model_differs_if_the_route_renames_it(dialect, body, spelled):
    output = render(dialect, body, Target(model="other")).body
    assert output == body.replace(spelled, b'"other"', 1)


def test_values_set_by_the_route_are_replaced_in_place():
    target = Target(max_tokens=7, fields={"provider": {"only": ["x"]}})
    output = render("anthropic", ANTHROPIC, target)
    expected = ANTHROPIC.replace(b"100", b"7").rstrip().removesuffix(b"}")
    assert output.body == expected + b',"provider":{"only":["x"]}}\n'
    assert [notice.code for notice in output.notices] == [NoticeCode.LIMIT_CLAMPED]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_single_calls_are_requested_in_the_form_of_the_dialect(dialect):
    tool = (
        {"name": "f", "input_schema": {}}
        if dialect == "anthropic"
        else {"type": "function", "function": {"name": "f"}}
    )
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "tools": [tool],
        "stream": True,
    }
    conversation = DIALECTS[dialect].parse(json.dumps(body).encode())
    choice = msgspec.structs.replace(conversation.tool_choice, parallel=False)
    conversation = msgspec.structs.replace(conversation, tool_choice=choice)
    output = json.loads(DIALECTS[dialect].render(conversation, Target()).body)
    if dialect == "anthropic":
        assert output["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    else:
        assert output["parallel_tool_calls"] is False


def test_usage_is_requested_even_if_the_client_did_not():
    body = OPENAI.replace(b'"stream_options" : {"include_usage":true,"odd":1},', b"")
    output = render("openai", body).body
    assert output == body.removesuffix(b"}") + b',"stream_options":{"include_usage":true}}'


def test_a_request_without_streaming_stays_without_streaming():
    body = b'{"model":"m","messages":[{"role":"user","content":"x"}]}'
    for dialect in DIALECTS:
        assert render(dialect, body, stream=False).body == body
        assert json.loads(render(dialect, body, stream=True).body)["stream"] is True


def test_p5_only_unsigned_thinking_is_removed_and_other_bytes_stay():
    kept = b'{"signature":"%b" , "type":"thinking","thinking":"H\\u006d."}' % GENUINE.encode()
    minted = b'{"type":"thinking","thinking":"made up","signature":""}'
    other = b'{"text":"a \\u0062","type":"text" ,"odd":1.50}'
    body = b'{"odd" : 1.0, "messages":[{"role":"user" ,"content":"x"},{"role":"assistant","content":[%b,%b,%b]}],"model":"m","stream" :true}'
    output = render("anthropic", body % (kept, minted, other))
    assert output.body == body.replace(b"[%b,%b,%b]", b"[%b,%b]") % (kept, other)
    assert [notice.code for notice in output.notices] == [NoticeCode.REASONING_DROPPED]
    assert (
        render("anthropic", body.replace(b"[%b,%b,%b]", b"[%b, %b]") % (kept, other)).notices == ()
    )


def test_p5_a_target_without_thinking_gets_none():
    blocks = [
        {"type": "thinking", "thinking": "t", "signature": GENUINE},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "x"},
    ]
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": blocks}],
    }
    output = render("anthropic", json.dumps(body).encode(), Target(takes_thinking=False))
    assert json.loads(output.body)["messages"][1]["content"] == blocks[2:]
    chat = DIALECTS["openai"].parse(
        DIALECTS["openai"]
        .render(
            DIALECTS["anthropic"].parse(json.dumps(body).encode()),
            Target(reasoning_field="reasoning"),
        )
        .body
    )
    for target, count in ((Target(), 3), (Target(takes_thinking=False), 1)):
        output = DIALECTS["anthropic"].render(chat, target)
        assert len(json.loads(output.body)["messages"][1]["content"]) == count


def test_reasoning_of_an_openai_client_stays_where_the_upstream_put_it():
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning": "hm"},
        {"role": "tool", "tool_call_id": "a", "content": "ok"},
    ]
    body = json.dumps(
        {
            "model": "m",
            "messages": history,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    keeps = Target(reasoning_field="reasoning", keeps_reasoning=True)
    assert render("openai", body, keeps).body == body
    assert render("openai", body, keeps).notices == ()
    assert render("openai", body, Target(reasoning_field="reasoning_content")).body != body


def test_an_invalid_history_is_rendered_again():
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}],
    }
    output = json.loads(render("openai", json.dumps(body).encode()).body)
    assert [message["role"] for message in output["messages"]] == ["user", "assistant", "tool"]
