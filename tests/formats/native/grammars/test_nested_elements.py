"""Values as nested elements: of MiniMax M3."""

import json

import pytest

from formats import Limits, Tool, Toolbox, ToolCallDelta, collect
from formats.conversation import Text
from tests.support.wire import cuts, decode, event_reads, stream, text_from

P = "]<]minimax[>["
SCHEMA = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "n": {"type": "integer"},
        "list": {"type": "array", "items": {"type": "integer"}},
        "boat": {
            "type": "object",
            "properties": {
                "crew": {"type": "integer"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "boat": {"type": "object", "properties": {"crew": {"type": "number"}}},
            },
            "additionalProperties": {"type": "boolean"},
        },
        "either": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]},
        "free": {},
        "-A": {"type": "integer"},
    },
}
TOOLS = Toolbox([Tool("f", None, json.dumps(SCHEMA).encode())])


def element(key, content):
    return f"{P}<{key}>{content}{P}</{key}>"


def call(*elements, name="f", line=""):
    body = "".join(each + line for each in elements)
    return f'{P}<tool_call>\n{P}<invoke name="{name}">{line}{body}{P}</invoke>\n{P}</tool_call>'


def read(text):
    """The reply to a text, which is the same at any split."""
    replies = [
        collect(
            decode(
                event_reads(text_from("openai", pieces, "content")),
                format_name="minimax",
                tools=TOOLS,
            )
        )
        for pieces in cuts(text, 3)
    ]
    for reply in replies:
        assert (reply.parts, reply.faults) == (replies[0].parts, replies[0].faults)
    return replies[0]


def arguments(text):
    reply = read(text)
    assert not reply.failure, reply.failure
    [part] = reply.parts
    return json.loads(part.arguments)


VALUES = [
    ("s", element("em", "x"), element("em", "x")),
    ("s", "a < b </s> &amp; c", "a < b </s> &amp; c"),
    ("s", f"one {P}</s> two", f"one {P}</s> two"),
    ("n", " 7\n", 7),
    ("-A", "3", 3),
    ("list", "", []),
    ("list", "[1, 2]", [1, 2]),
    ("list", element("item", "1") + "\n" + element("item", "2"), [1, 2]),
    ("list", element("n", "1"), [1]),
    ("boat", "", {}),
    ("boat", '{"crew": 2}', {"crew": 2}),
    ("boat", element("crew", "2") + element("new", "true"), {"crew": 2, "new": True}),
    ("boat", "\n" + element("crew", "2") + "\nold\n", {"crew": 2, "$text": "old"}),
    ("boat", element("tags", "a") + element("tags", "1"), {"tags": ["a", "1"]}),
    ("boat", element("tags", element("item", "1")), {"tags": ["1"]}),
    ("boat", element("boat", element("crew", "1.5")), {"boat": {"crew": 1.5}}),
    ("either", "a", "a"),
    ("either", element("item", "1.5"), [1.5]),
    ("free", "1", "1"),
    ("free", element("a", "1") + element("b", element("item", "2")), {"a": "1", "b": ["2"]}),
    ("free", element("a", "1") + element("a", "2"), {"a": ["1", "2"]}),
    ("other", element("a", "1"), {"a": "1"}),
]


@pytest.mark.parametrize(("key", "written", "value"), VALUES)
def test_the_schema_decides_what_elements_mean(key, written, value):
    assert arguments(call(element(key, written))) == {key: value}
    wanted = {key: value, "s" if key != "s" else "n": "z" if key != "s" else 1}
    follower = element("n", "1") if key == "s" else element("s", "z")
    assert arguments(call(element(key, written), follower, line="\n")) == wanted


@pytest.mark.parametrize("content", [f"{P}<a>1", f"{P}</a>", f"{P}<a>1{P}</b>", f"{P}<a>" * 100])
def test_elements_that_do_not_nest_are_the_text_that_the_model_wrote(content):
    assert arguments(call(element("free", content))) == {"free": content}


def test_an_undeclared_tool_gets_objects_lists_and_strings():
    text = call(element("a", "7"), element("b", element("item", "x")), name="h")
    assert arguments(text) == {"a": "7", "b": ["x"]}


def test_a_missing_end_of_a_plain_value_is_before_the_next_declared_parameter():
    assert arguments(call(f"{P}<n>7", element("s", "a"))) == {"n": 7, "s": "a"}


FAULTS = {
    f"{P}<tool_call>": "truncated",
    f'{P}<tool_call>{P}<invoke name="f">{P}<s>a': "truncated",
    f'{P}<tool_call>{P}<invoke name="f">{P}<list>{P}<item>1{P}</item>': "truncated",
    f'{P}<tool_call>{P}<invoke name="f">{P}<list>{P}<item>1{P}</item>{P}</list>': "truncated",
    f"{P}<tool_call>{P}<invoke>{P}<s>a{P}</s>{P}</invoke>{P}</tool_call>": "missing_name",
    f'{P}<tool_call>{P}<invoke name="f">s=1{P}</invoke>{P}</tool_call>': "malformed",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_broken_call_is_a_fault_and_no_text(text):
    reply = read("Hm. " + text)
    assert reply.faults == [FAULTS[text]]
    assert reply.parts == [Text("Hm. ")]


@pytest.mark.parametrize(
    "prose", [f"M3 writes {P} before <tool_call>.", f"{P}<tool_call> is its opener", "a]<]b [e [x]"]
)
def test_prose_about_the_tags_stays_whole(prose):
    assert read(prose).parts == [Text(prose)]


def test_the_token_before_the_first_tags_may_be_missing():
    text = call(element("n", "7")).replace(f"{P}<tool_call>", "<tool_call>")
    assert arguments(text) == {"n": 7}


def test_a_large_string_streams():
    opening = call(element("s", "")).partition(f"{P}</s>")[0]
    body = stream(*({"content": part} for part in [opening, *["x" * 1000] * 40]))
    events = decode(body, format_name="minimax", tools=TOOLS, limits=Limits(held_chars=5000))
    assert sum(len(event.json) for event in events if isinstance(event, ToolCallDelta)) > 40_000
