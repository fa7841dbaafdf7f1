"""The fast path for chunks that differ in one string gives the same events as decoding each."""

import json
import random

import pytest

from formats import (
    Identity,
    Limits,
    MessageFailed,
    Toolbox,
    ToolCallDelta,
    build_pipeline,
    merge_deltas,
)
from formats.errors import UpstreamError
from formats.openai.decoder import OpenAIDecoder
from tests.support.wire import CREATED

HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": CREATED, "model": "m"}


def chunk(delta, **more):
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return json.dumps(HEAD | {"choices": [choice]} | more, ensure_ascii=False).encode()


def text(content):
    return chunk({"content": content})


def arguments(fragment, **more):
    return chunk({"tool_calls": [{"index": 0, "function": {"arguments": fragment}} | more]})


CALL = chunk(
    {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f"}}]}
)
END = [
    json.dumps(HEAD | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}).encode(),
    b"[DONE]",
]


def outcome(payloads, *, apart):
    """Events and error of a decoder that learns the template, or (`apart`) decodes every chunk."""
    decoder = OpenAIDecoder()
    reads = [b"data: %b\n\n" % payload for payload in payloads]
    events = []
    try:
        for read in reads if apart else [b"".join(reads)]:
            events += decoder.feed(read)
            if apart:
                decoder._run.end()  # forgets the template
        return [*events, *decoder.close()], None
    except UpstreamError as error:
        return [*events, *decoder.take()], str(error)


def check(*payloads):
    """Check that chunks give the same events with and without a template, at any cut."""
    expected, error = outcome(payloads, apart=True)
    for size in (len(payloads), 1, 2, 3, 7):
        decoder = OpenAIDecoder()
        events = []
        raised = None
        try:
            for at in range(0, len(payloads), size):
                events += decoder.feed(
                    b"".join(b"data: %b\n\n" % p for p in payloads[at : at + size])
                )
            events += decoder.close()
        except UpstreamError as exception:
            events += decoder.take()
            raised = str(exception)
        assert merge_deltas(events) == merge_deltas(expected)
        assert raised == error
    return merge_deltas(expected), error


def template_of(*payloads):
    decoder = OpenAIDecoder()
    decoder.feed(b"".join(b"data: %b\n\n" % payload for payload in payloads))
    return decoder._run.template


def test_two_chunks_that_differ_in_one_string_give_a_template():
    before, after = template_of(text("a"), text("b"))
    assert before + b"x" + after == text("x")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "plain",
        'a "quote" and a \\ backslash',
        "line\nfeed\ttab",
        "été 汉字 \U0001f600",
        '"},"finish_reason":null}]}',
        '","content":"twice',
    ],
)
def test_any_text_is_kept_unchanged(content):
    events, _ = check(text("a"), text("b"), text(content), text("c"), *END)
    assert events[1].text == f"ab{content}c"


@pytest.mark.parametrize(
    "inside",
    [
        b'x"},"finish_reason":"length"}],"a":[{"b":{"c":"',  # ends the answer, and has the template
        b'x","refusal":"no',
        b'x","content":"y',
        b"x\\",
        b"\\q",
        b"\\ud83d",
        b"\\u12",
        b"\x01",
        b"\xff",
        b"\xe6\xb1",
        b'","',
        b'",\n"',
        b'"',
    ],
)
def test_chunks_without_a_valid_string_are_decoded_in_full(inside):
    before, after = template_of(text("a"), text("b"))
    check(text("a"), text("b"), text("c"), before + inside + after, text("d"), *END)
    check(text("a"), text("b"), before + inside + after, before + b',"y' + after, *END)


def test_two_halves_of_one_string_are_not_joined():
    before, after = template_of(text("a"), text("b"))
    for first, second in ((b"a\\", b',"y'), (b"\xe6\xb1", b"\x89")):
        halves = [before + inside + after for inside in (first, second)]
        _, error = check(text("a"), text("b"), *halves, *END)
        assert error


def test_one_quote_cannot_match_both_ends_of_the_template():
    before, after = template_of(text("a"), text("b"))
    _, error = check(text("a"), text("b"), text("c"), before + after[1:], *END)
    assert error


def test_halves_of_a_surrogate_pair_are_kept():
    before, after = template_of(text("a"), text("b"))
    events, _ = check(
        text("a"), text("b"), before + b"\\ud83d" + after, before + b"\\ude00" + after, *END
    )
    assert events[1].text == "ab\ud83d\ude00"


def test_chunks_with_a_second_varying_string_are_decoded_in_full():
    padded = [chunk({"content": f"{n}"}, obfuscation="x" * n) for n in range(9)]
    events, _ = check(*padded, *END)
    assert events[1].text == "012345678"


def test_a_duplicate_key_gives_no_template():
    twice = text("a").replace(b'"content": "a"', b'"content": "a", "content": "b"')
    assert template_of(twice, twice) == template_of(text("a"))
    events, _ = check(twice, twice, twice, *END)
    assert events[1].text == "bbb"


def test_text_reasoning_and_arguments_are_separate_runs():
    reasoning = [chunk({"content": None, "reasoning_content": word}) for word in "abcd"]
    pieces = [arguments(piece) for piece in ('{"x": "', "y", "z", '\\"', '"', "}")]
    events, _ = check(*reasoning, *map(text, "efgh"), CALL, *pieces, *END)
    assert [type(event).__name__ for event in events] == [
        "MessageStart", "ReasoningDelta", "TextDelta", "ToolCallStart", "ToolCallDelta",
        "ToolCallEnd", "MessageEnd",
    ]  # fmt: skip
    assert events[4].json == '{"x": "yz\\""}'


@pytest.mark.parametrize(
    "fragments",
    [
        ['{"a":', ' "b"', "}", "}", " "],
        ['{"a":', ' "b"', "}", "junk", "more"],
        ['{"a":', ' "b"', "} junk", "more"],
        ['{"a":', ' "b', "\\", "q", "c", '"}'],
        ['{"a":', ' "b\\', "u12", "g", '"}'],
        ['{"a":', " tru", "e", "]", "}"],
        ['{"a":', " 1", "2", "}", '{"a": 12}', "x"],
        ['{"a', '{"a": 1', '{"a": 1}'],
        ['{"a":', ' "b"', "}", '{"a": "b"}'],
        ['"{', "}", '"', "x"],
        ["", "", '{"a":', "", " 1", "", "}", ""],
        ["[", "1", "]", "2"],
    ],
)
def test_arguments_end_at_the_same_fragment_at_any_cut(fragments):
    check(CALL, *map(arguments, fragments), *END)


def test_text_inside_a_call_follows_the_call_at_any_cut():
    pieces = ['{"a": "', "b", "c", "d", "e", '"}']
    chunks = [arguments(piece) for piece in pieces]
    events, error = check(CALL, *chunks[:3], text("hi"), *chunks[3:], *END)
    assert error is None
    assert [type(event).__name__ for event in events] == [
        "MessageStart", "ToolCallStart", "ToolCallDelta", "ToolCallEnd", "TextDelta", "MessageEnd",
    ]  # fmt: skip


def test_chunks_after_the_end_are_ignored():
    events, error = check(*map(text, "abc"), *END, text("d"))
    assert error is None
    assert events[1].text == "abc"


def test_random_fragments_give_the_same_events_at_any_cut():
    chance = random.Random(8)
    words = ["a", '"', "\\", "\\n", "}", "{", " ", '{"k": "', '"}', "1", ",", ":", "é"]
    for _ in range(300):
        payloads = [text("x"), CALL] if chance.random() < 0.7 else [text("x")]
        for _ in range(chance.randint(3, 25)):
            word = chance.choice(words)
            kind = chance.choice(["arguments", "arguments", "arguments", "text", "reasoning"])
            if kind == "text":
                payloads.append(text(word))
            elif kind == "reasoning":
                payloads.append(chunk({"reasoning": word}))
            else:
                more = {"id": "b"} if chance.random() < 0.03 else {}
                payloads.append(arguments(word, **more))
        check(*payloads, *END)


def test_an_empty_string_is_decoded_in_full():
    check(*map(text, ("one", "two", "three", "", "four")), *END)
    decoder = OpenAIDecoder()
    for content in ("one", "two", "three"):
        decoder.feed(b"data: %b\n\n" % text(content))
    assert decoder.feed(b"data: %b\n\n" % text("")) == []
    reasoning = [
        chunk({"reasoning": word, "reasoning_content": "else"}) for word in ("a", "b", "c", "")
    ]
    check(*reasoning, *END)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("lines", [1, 2])
def test_one_event_per_read_gives_the_same_events_as_one_read(lines, end):
    payloads = [text("a"), text("b"), text("c"), text("é"), text("d"), text('"'), *END]
    marked = [payload.replace(b": ", b":\n", lines - 1) for payload in payloads]
    events = [
        b"".join(b"data: %b%b" % (line, end) for line in payload.split(b"\n")) + end
        for payload in marked
    ]
    whole = OpenAIDecoder()
    expected = merge_deltas([*whole.feed(b"".join(events)), *whole.close()])
    assert expected[1].text == 'abcéd"'
    for reads in (
        events,
        [event + b": alive" + end + end for event in events],
        [b"\r" + event for event in events],
        [b"d", *[event[1:] + b"d" for event in events[:-1]], events[-1][1:]],
        [events[0][:-1], *[end[-1:] + event[:-1] for event in events[1:]], end[-1:]],
    ):
        apart, at_once = OpenAIDecoder(), OpenAIDecoder()
        separately = [event for read in reads for event in apart.feed(read)]
        assert merge_deltas([*separately, *apart.close()]) == merge_deltas(
            [*at_once.feed(b"".join(reads)), *at_once.close()]
        )


def test_text_between_carriage_returns_is_not_an_event():
    decoder = OpenAIDecoder()
    assert decoder.feed(b"\rtext\r") == []
    decoder.feed(b"data: %b\n\n" % text("a"))
    assert decoder.feed(b"\rtext\r") == []


def test_an_event_with_the_template_that_is_too_long_is_refused():
    decoder = OpenAIDecoder(Limits(line_bytes=1000))
    for content in ("one", "two", "three"):
        decoder.feed(b"data: %b\n\n" % text(content))
    with pytest.raises(UpstreamError, match="line_bytes"):
        decoder.feed(b"data: %b\n\n" % text("x" * 1000))


def call_fragment(number, fragment, name=None):
    entry = {"index": number, "function": {"arguments": fragment}}
    if name:
        entry |= {"id": f"call_{number}", "type": "function"}
        entry["function"]["name"] = name
    return chunk({"tool_calls": [entry]})


def test_a_complete_call_ends_when_another_is_pending():
    decoder = OpenAIDecoder()
    fed = [
        call_fragment(0, "", "f"),
        call_fragment(1, '{"x":1}', "f"),
        call_fragment(0, '{"a"'),
        call_fragment(0, ":1"),
    ]
    for payload in fed:
        decoder.feed(b"data: %b\n\n" % payload)
    last = decoder.feed(b"data: %b\n\n" % call_fragment(0, "}"))
    kinds = [type(event).__name__ for event in last]
    assert kinds == ["ToolCallDelta", "ToolCallEnd", "ToolCallStart", "ToolCallDelta"]


def test_the_first_of_two_errors_in_one_read_is_reported_after_the_events_before_it():
    pipeline = build_pipeline(
        client="anthropic",
        upstream="openai",
        format_name="standard",
        identity=Identity(token="t", message_id="m"),
        toolbox=Toolbox([]),
        limits=Limits(held_chars=12),
    )
    fragments = ((0, '{"a":', "f"), (1, "{", "f"), (1, '"bbbbbbbb', None), (1, "cccccccc", None))
    payloads = [call_fragment(*fragment) for fragment in fragments]
    events = pipeline.decode(b"".join(b"data: %b\n\n" % p for p in (*payloads, b"{oops")))
    assert ToolCallDelta('{"a":') in events
    assert isinstance(events[-1], MessageFailed)
    assert "held_chars" in events[-1].message


def test_an_empty_error_is_an_error_at_any_cut():
    failing = [
        call_fragment(0, "", "f"),
        call_fragment(0, '{"a"'),
        call_fragment(0, ":1"),
        call_fragment(0, "]"),
    ]
    choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": None, "error": ""}
    check(*failing, json.dumps(HEAD | {"choices": [choice]}).encode())
