"""The incremental scanner of arguments agrees with a JSON parser, at any split."""

import json

import jiter
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from formats import LimitExceeded, Limits
from formats.arguments import Arguments, Status
from tests.support.strategies import arguments
from tests.support.wire import cuts


def read(parts, limits=None):
    """Return the status, the forwarded text, and the unread rest."""
    reader = Arguments(limits or Limits())
    forwarded = ""
    rest = ""
    for part in parts:
        if reader.status in (Status.EMPTY, Status.OPEN) and not rest:
            forward, end = reader.read(part)
            forwarded += forward
            rest = part[end:]
        else:
            rest += part
    if not rest:
        reader.finish()
    return reader.status, forwarded, rest


CASES = {
    "": (Status.EMPTY, "", ""),
    " \n": (Status.EMPTY, "", ""),
    "{}": (Status.COMPLETE, "{}", ""),
    ' {"a": [1, {"b": null}]} ': (Status.COMPLETE, '{"a": [1, {"b": null}]}', " "),
    '{"a":1}}': (Status.COMPLETE, '{"a":1}', "}"),
    '{"a":"}{\\"]["}': (Status.COMPLETE, '{"a":"}{\\"]["}', ""),
    '"{\\"a\\":1}"': (Status.COMPLETE, '{"a":1}', ""),
    '"  "': (Status.COMPLETE, "", ""),
    "null": (Status.COMPLETE, "", ""),
    "[1]": (Status.NON_OBJECT, "", ""),
    "12": (Status.NON_OBJECT, "", ""),
    '"words"': (Status.NON_OBJECT, "", ""),
    '{"a":tru': (Status.OPEN, '{"a":tru', ""),
    '{"a":-': (Status.OPEN, '{"a":-', ""),
    '{"a":[1.5e': (Status.OPEN, '{"a":[1.5e', ""),
    '{"a":12': (Status.OPEN, '{"a":12', ""),
    '{"a":trux': (Status.INVALID, '{"a":tru', "x"),
    '{"a":01': (Status.INVALID, '{"a":0', "1"),
    "nul": (Status.OPEN, "", ""),
    '{"a":"b': (Status.OPEN, '{"a":"b', ""),
    '{"a":"\\u00': (Status.OPEN, '{"a":"', ""),
    '{"a":1,}': (Status.INVALID, '{"a":1,', "}"),
    "{'a':1}": (Status.INVALID, "{", "'a':1}"),
    '{"a" 1}': (Status.INVALID, '{"a" ', "1}"),
    '{"a":tru}': (Status.INVALID, '{"a":tru', "}"),
    '{"a":01}': (Status.INVALID, '{"a":0', "1}"),
    '{"a":NaN}': (Status.INVALID, '{"a":', "NaN}"),
    '{"a":1.5.2}': (Status.INVALID, '{"a":1.5', ".2}"),
    '{"a":1.e5}': (Status.INVALID, '{"a":1.', "e5}"),
    '{"a":1e5x': (Status.INVALID, '{"a":1e5', "x"),
    '{"a":-Infinity}': (Status.INVALID, '{"a":-', "Infinity}"),
    '{"a":1e400}': (Status.INVALID, '{"a":1e400', "}"),
    '{"a":-1E+999}': (Status.INVALID, '{"a":-1E+999', "}"),
    '{"a":1e308}': (Status.COMPLETE, '{"a":1e308}', ""),
    '{"a":' + "9" * 400 + "}": (Status.INVALID, '{"a":' + "9" * 400, "}"),
    '{"a":1,"a":2}': (Status.COMPLETE, '{"a":1,"a":2}', ""),
    '{"a":"x\ny"}': (Status.INVALID, '{"a":"x', '\ny"}'),
    '{"a":]': (Status.INVALID, '{"a":', "]"),
    "{<": (Status.INVALID, "{", "<"),
}


@pytest.mark.parametrize(("text", "expected"), CASES.items())
def test_status_and_forwarded_text_of_each_case(text, expected):
    for parts in cuts(text):
        assert read(parts) == expected


def test_an_invalid_escape_is_not_forwarded():
    for parts in cuts('{"a":"\\u12xy"}'):
        status, forwarded, _ = read(parts)
        assert (status, forwarded) == (Status.INVALID, '{"a":"')


@given(value=arguments, indent=st.none() | st.just(2), junk=st.sampled_from(["", "}", " {", "x"]))
@settings(max_examples=40)
def test_every_object_is_complete_and_forwarded_unchanged(value, indent, junk):
    text = json.dumps(value, indent=indent)
    for parts in cuts(text + junk, 2):
        assert read(parts) == (Status.COMPLETE, text, junk)


@given(text=st.text('{}[]",:\\u0e1t-. \n', max_size=12).map(lambda text: "{" + text))
@example(text='{"":0,"":0}')
@settings(max_examples=300)
def test_text_that_a_json_parser_refuses_is_never_complete(text):
    status, forwarded, rest = read([text])
    try:
        valid = isinstance(json.loads(text), dict)
    except ValueError:
        valid = False
    if valid:
        assert (status, forwarded + rest) == (Status.COMPLETE, text)
    if status is Status.COMPLETE:
        assert isinstance(json.loads(forwarded), dict)


@given(text=st.text('{}[]",:\\u0e1t-.truefalsn+E \n', max_size=12).map(lambda text: '{"a":' + text))
@example(text='{"a":truHm')
@settings(max_examples=300)
def test_the_sdks_can_parse_the_forwarded_text_at_any_time(text):
    for parts in cuts(text):
        _, forwarded, _ = read(parts)
        jiter.from_json(forwarded.encode(), partial_mode=True)


def test_nesting_is_limited():
    assert read(['{"a":' * 9], Limits(json_depth=8))[0] is Status.INVALID
    assert read(['{"a":' * 8], Limits(json_depth=8))[0] is Status.OPEN


def test_a_doubly_encoded_object_is_held_up_to_the_limit():
    with pytest.raises(LimitExceeded):
        read(['"', *["x" * 10] * 20], Limits(held_chars=100))
