"""Cache marks of an OpenAI client, where LiteLLM's and OpenRouter's clients put them."""

import json

import pytest

from formats import DIALECTS, Target

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
PARAMETERS = {"type": "object", "properties": {}}
PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def render(messages, upstream="anthropic", **fields):
    body = {"model": "m", "max_tokens": 9, "messages": messages, **fields}
    conversation = DIALECTS["openai"].parse(json.dumps(body).encode())
    return DIALECTS[upstream].render(conversation, Target())


def blocks(rendered):
    """Return all blocks of a request to Anthropic, in the order of its cache."""
    body = json.loads(rendered.body)
    found = [*body.get("tools", []), *body.get("system", [])]
    return [*found, *(block for message in body["messages"] for block in message["content"])]


def marked(rendered):
    """Return (text, id or name, mark) of each marked block."""
    return [
        (b.get("text") or b.get("tool_use_id") or b.get("name") or b["type"], b["cache_control"])
        for b in blocks(rendered)
        if "cache_control" in b
    ]


def part(text, mark=MARK):
    return {"type": "text", "text": text, "cache_control": mark}


def call(call_id, **fields):
    function = {"name": "f", "arguments": "{}"}
    return {"role": "assistant", "content": None, **fields,
            "tool_calls": [{"id": call_id, "type": "function", "function": function}]}  # fmt: skip


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "system", "content": [part("S", HOUR)]}, ("S", HOUR)),
        ({"role": "system", "content": "S", "cache_control": MARK}, ("S", MARK)),
        ({"role": "user", "content": [part("U"), {"type": "text", "text": "V"}]}, ("U", MARK)),
        ({"role": "user", "content": [PNG | {"cache_control": MARK}]}, ("image", MARK)),
        ({"role": "user", "content": "U", "cache_control": HOUR}, ("U", HOUR)),
        ({"role": "assistant", "content": [part("A")]}, ("A", MARK)),
        ({"role": "assistant", "content": "A", "cache_control": MARK}, ("A", MARK)),
    ],
)
def test_marks_on_parts_and_messages_are_carried(message, expected):
    """Fault C8."""
    rendered = render([message, {"role": "user", "content": "Hi"}])
    assert marked(rendered) == [expected]
    assert not rendered.notices


@pytest.mark.parametrize(
    "fields", [{"cache_control": MARK, "content": "R"}, {"content": [part("Q"), part("R")]}]
)
def test_marks_on_calls_and_results_are_carried(fields):
    """Fault C8: Anthropic takes the mark of a result on the result, not in it."""
    result = {"role": "tool", "tool_call_id": "c", **fields}
    first = {"role": "user", "content": "Hi"}
    assert marked(render([first, call("c"), result])) == [("c", MARK)]
    assert marked(render([first, call("c", cache_control=MARK), result])) == [
        ("f", MARK), ("c", MARK)
    ]  # fmt: skip


@pytest.mark.parametrize("inside", [True, False])
def test_marks_on_tools_are_carried(inside):
    """Fault C8: LiteLLM reads the mark beside the function and in it."""
    function = {"name": "f", "parameters": PARAMETERS}
    tools = [
        {"type": "function", "function": function | ({"cache_control": HOUR} if inside else {})}
    ]
    if not inside:
        tools[0]["cache_control"] = HOUR
    assert marked(render([{"role": "user", "content": "Hi"}], tools=tools)) == [("f", HOUR)]


def test_the_first_and_the_last_three_of_too_many_marks_stay():
    """Fault C8: Anthropic rejects a fifth."""
    tool = {"type": "function", "function": {"name": "f", "parameters": PARAMETERS}}
    system = {"role": "system", "content": [part("S")]}
    users = [{"role": "user", "content": [part(f"U{n}")]} for n in range(3)]
    result = {"role": "tool", "tool_call_id": "c", "content": [part("R")]}
    messages = [system, users[0], call("c"), result, *users[1:]]
    rendered = render(messages, tools=[tool | {"cache_control": MARK}])
    assert [name for name, _ in marked(rendered)] == ["f", "c", "U1", "U2"]
    assert [notice.detail for notice in rendered.notices] == ["cache_control 6 → 4"]
    four = render(messages[1:])
    assert len(marked(four)) == 4
    assert not four.notices


def test_a_mark_that_cannot_be_read_is_dropped_with_a_notice():
    for mark in ("ephemeral", [], {"type": 5}, {}):
        rendered = render([{"role": "user", "content": [part("U", mark)]}])
        assert not marked(rendered)
        assert [n.detail for n in rendered.notices] == ["cache_control that cannot be read"]
    assert not marked(render([{"role": "user", "content": [part("U", None)]}]))


def test_marks_pass_unchanged_to_an_upstream_of_the_same_dialect_or_are_noted():
    message = {"role": "user", "content": [part("U")]}
    passed = render([message], "openai")
    assert json.loads(passed.body)["messages"] == [message]
    assert not passed.notices
    rendered = render([{"role": "developer", "content": "S"}, message], "openai")
    assert "cache_control of parts" in {notice.detail for notice in rendered.notices}


def test_a_mark_on_the_whole_request_is_noted_as_dropped():
    rendered = render([{"role": "user", "content": [part("U")]}], cache_control=MARK)
    assert marked(rendered) == [("U", MARK)]
    assert [notice.detail for notice in rendered.notices] == ["cache_control"]
