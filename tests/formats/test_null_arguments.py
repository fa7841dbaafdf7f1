"""A null for an optional parameter is dropped from a call's arguments."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import NoticeCode, Tool, Toolbox
from formats.null_arguments import NullFilter
from tests.support.strategies import arguments
from tests.support.wire import calls, cuts, entry, reply_from, stream

OPTIONAL = frozenset({"a", "b"})


def filtered(parts, optional=OPTIONAL):
    nulls = NullFilter(optional)
    return "".join(map(nulls.feed, parts)), nulls.dropped


CASES = {
    "{}": "{}",
    "{ }": "{ }",
    '{"a":null}': "{}",
    '{ "a" : null }': "{}",
    '{"a":null,"b":null}': "{}",
    '{"a":null,"x":1}': '{"x":1}',
    '{"x":1, "a":null , "y":2}': '{"x":1, "y":2}',
    '{"x":1,"a":null}': '{"x":1}',
    '{"x":null}': '{"x":null}',
    '{"a":"null"}': '{"a":"null"}',
    '{"a":[null]}': '{"a":[null]}',
    '{"x":{"a":null}}': '{"x":{"a":null}}',
    '{"x":[{"a":null},{"b":[null]}],"b":null}': '{"x":[{"a":null},{"b":[null]}]}',
    '{"x":"\\",\\"a\\":null","y":"}","a":1}': '{"x":"\\",\\"a\\":null","y":"}","a":1}',
    '{"x":"\\\\","a":null}': '{"x":"\\\\"}',
    '{"' + "k" * 400 + '":null,"a":null,"x":"a,b"}': '{"' + "k" * 400 + '":null,"x":"a,b"}',
}


@pytest.mark.parametrize("written", CASES)
def test_only_nulls_of_optional_parameters_are_dropped_at_any_split(written):
    for parts in cuts(written, 30):
        assert filtered(parts)[0] == CASES[written]


@settings(max_examples=200)
@given(arguments, st.integers(0, 2**32))
def test_forwarded_arguments_equal_parsed_arguments_without_nulls(given_arguments, seed):
    given_arguments = {**given_arguments, "a": None, "x": seed, "b": None}
    written = json.dumps(given_arguments)
    kept = {k: v for k, v in given_arguments.items() if v is not None or k not in OPTIONAL}
    for parts in cuts(written, 3):
        assert json.loads(filtered(parts)[0]) == kept
        assert filtered(parts, frozenset())[0] == written


SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer"},
        "mode": {"enum": ["r", "w"]},
        "nullable": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "anything": {},
    },
    "required": ["path"],
}


def test_the_schema_decides_which_nulls_are_dropped_and_a_notice_names_them():
    toolbox = Toolbox([Tool("f", None, json.dumps(SCHEMA).encode())])
    given_arguments = dict.fromkeys([*SCHEMA["properties"], "unknown"])
    body = stream(calls(entry(0, "a", "f", json.dumps(given_arguments))))
    reply = reply_from(body, tools=toolbox)
    left = dict.fromkeys(["path", "nullable", "either", "anything", "unknown"])
    assert json.loads(reply.parts[0].arguments) == left
    dropped = [n.detail for n in reply.notices if n.code is NoticeCode.NULL_DROPPED]
    assert dropped == ["limit", "mode"]
