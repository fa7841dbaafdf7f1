"""Chunks that are alike but for one string: what is read of them is what each of them says."""

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
    """What a decoder makes of chunks: with a run's shape, or each by a run that has none."""
    decoder = OpenAIDecoder()
    reads = [b"data: %b\n\n" % payload for payload in payloads]
    events = []
    try:
        for read in reads if apart else [b"".join(reads)]:
            events += decoder.feed(read)
            if apart:
                decoder._run.end()  # the next chunk finds no shape
        return [*events, *decoder.close()], None
    except UpstreamError as error:
        return [*events, *decoder.take()], str(error)


def check(*payloads):
    """Chunks mean the same, whether or not they are read by their shape."""
    expected, error = outcome(payloads, apart=True)
    for size in (len(payloads), 1, 2, 3, 7):
        decoder = OpenAIDecoder()
        events = []
        found = None
        try:
            for at in range(0, len(payloads), size):
                events += decoder.feed(
                    b"".join(b"data: %b\n\n" % p for p in payloads[at : at + size])
                )
            events += decoder.close()
        except UpstreamError as raised:
            events += decoder.take()
            found = str(raised)
        assert merge_deltas(events) == merge_deltas(expected)
        assert found == error
    return merge_deltas(expected), error


def shape_of(*payloads):
    decoder = OpenAIDecoder()
    decoder.feed(b"".join(b"data: %b\n\n" % payload for payload in payloads))
    return decoder._run.shape


def test_chunks_that_are_alike_are_not_decoded():
    before, behind = shape_of(text("a"), text("b"))
    assert before + b"x" + behind == text("x")


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
def test_any_text_is_read_as_it_is(content):
    events, _ = check(text("a"), text("b"), text(content), text("c"), *END)
    assert events[1].text == f"ab{content}c"


@pytest.mark.parametrize(
    "inside",
    [
        b'x"},"finish_reason":"length"}],"a":[{"b":{"c":"',  # ends the answer, in the same shape
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
def test_what_is_no_string_is_read_as_a_chunk(inside):
    before, behind = shape_of(text("a"), text("b"))
    check(text("a"), text("b"), text("c"), before + inside + behind, text("d"), *END)
    check(text("a"), text("b"), before + inside + behind, before + b',"y' + behind, *END)


def test_two_strings_that_only_together_are_some_are_none():
    before, behind = shape_of(text("a"), text("b"))
    for first, second in ((b"a\\", b',"y'), (b"\xe6\xb1", b"\x89")):
        alike = [before + inside + behind for inside in (first, second)]
        _, error = check(text("a"), text("b"), *alike, *END)
        assert error


def test_before_and_behind_may_not_share_a_quote():
    before, behind = shape_of(text("a"), text("b"))
    _, error = check(text("a"), text("b"), text("c"), before + behind[1:], *END)
    assert error


def test_halves_of_a_pair_are_kept():
    before, behind = shape_of(text("a"), text("b"))
    events, _ = check(
        text("a"), text("b"), before + b"\\ud83d" + behind, before + b"\\ude00" + behind, *END
    )
    assert events[1].text == "ab\ud83d\ude00"


def test_a_chunk_with_other_strings_has_no_shape_and_is_read():
    padded = [chunk({"content": f"{n}"}, obfuscation="x" * n) for n in range(9)]
    events, _ = check(*padded, *END)
    assert events[1].text == "012345678"


def test_a_key_that_stands_there_twice_has_no_shape():
    twice = text("a").replace(b'"content": "a"', b'"content": "a", "content": "b"')
    assert shape_of(twice, twice) == shape_of(text("a"))
    events, _ = check(twice, twice, twice, *END)
    assert events[1].text == "bbb"


def test_text_reasoning_and_arguments_are_runs_of_their_own():
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
def test_arguments_end_where_they_end_in_any_read(fragments):
    check(CALL, *map(arguments, fragments), *END)


def test_text_amid_a_call_follows_the_call_in_any_read():
    pieces = ['{"a": "', "b", "c", "d", "e", '"}']
    chunks = [arguments(piece) for piece in pieces]
    events, error = check(CALL, *chunks[:3], text("hi"), *chunks[3:], *END)
    assert error is None
    assert [type(event).__name__ for event in events] == [
        "MessageStart", "ToolCallStart", "ToolCallDelta", "ToolCallEnd", "TextDelta", "MessageEnd",
    ]  # fmt: skip


def test_nothing_goes_on_behind_the_end():
    events, error = check(*map(text, "abc"), *END, text("d"))
    assert error is None
    assert events[1].text == "abc"


def test_fragments_of_any_kind_in_any_order():
    random.seed(8)
    words = ["a", '"', "\\", "\\n", "}", "{", " ", '{"k": "', '"}', "1", ",", ":", "é"]
    for _ in range(300):
        payloads = [text("x"), CALL] if random.random() < 0.7 else [text("x")]
        for _ in range(random.randint(3, 25)):
            word = random.choice(words)
            kind = random.choice(["arguments", "arguments", "arguments", "text", "reasoning"])
            if kind == "text":
                payloads.append(text(word))
            elif kind == "reasoning":
                payloads.append(chunk({"reasoning": word}))
            else:
                more = {"id": "b"} if random.random() < 0.03 else {}
                payloads.append(arguments(word, **more))
        check(*payloads, *END)


def test_an_empty_string_of_the_shape_means_what_its_chunk_means():
    check(*map(text, ("one", "two", "three", "", "four")), *END)
    decoder = OpenAIDecoder()
    for content in ("one", "two", "three"):
        decoder.feed(b"data: %b\n\n" % text(content))
    assert decoder.feed(b"data: %b\n\n" % text("")) == []
    told = [chunk({"reasoning": told, "reasoning_content": "else"}) for told in ("a", "b", "c", "")]
    check(*told, *END)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("lines", [1, 2])
def test_an_event_a_read_is_what_it_is_in_one_read(lines, end):
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
        said = [event for read in reads for event in apart.feed(read)]
        assert merge_deltas([*said, *apart.close()]) == merge_deltas(
            [*at_once.feed(b"".join(reads)), *at_once.close()]
        )


def test_what_stands_between_two_line_ends_is_no_event():
    decoder = OpenAIDecoder()
    assert decoder.feed(b"\rtext\r") == []
    decoder.feed(b"data: %b\n\n" % text("a"))
    assert decoder.feed(b"\rtext\r") == []


def test_an_event_of_the_shape_that_is_too_long_is_refused():
    decoder = OpenAIDecoder(Limits(line_bytes=1000))
    for content in ("one", "two", "three"):
        decoder.feed(b"data: %b\n\n" % text(content))
    with pytest.raises(UpstreamError, match="line_bytes"):
        decoder.feed(b"data: %b\n\n" % text("x" * 1000))


def of_call(number, fragment, name=None):
    entry = {"index": number, "function": {"arguments": fragment}}
    if name:
        entry |= {"id": f"call_{number}", "type": "function"}
        entry["function"]["name"] = name
    return chunk({"tool_calls": [entry]})


def test_a_call_that_is_complete_ends_where_another_waits_for_it():
    decoder = OpenAIDecoder()
    fed = [of_call(0, "", "f"), of_call(1, '{"x":1}', "f"), of_call(0, '{"a"'), of_call(0, ":1")]
    for payload in fed:
        decoder.feed(b"data: %b\n\n" % payload)
    last = decoder.feed(b"data: %b\n\n" % of_call(0, "}"))
    kinds = [type(event).__name__ for event in last]
    assert kinds == ["ToolCallDelta", "ToolCallEnd", "ToolCallStart", "ToolCallDelta"]


def test_of_two_errors_in_one_read_the_first_is_told_behind_what_was_read():
    pipeline = build_pipeline(
        client="anthropic",
        upstream="openai",
        format_name="standard",
        identity=Identity(token="t", message_id="m"),
        toolbox=Toolbox([]),
        limits=Limits(held_chars=12),
    )
    fragments = ((0, '{"a":', "f"), (1, "{", "f"), (1, '"bbbbbbbb', None), (1, "cccccccc", None))
    payloads = [of_call(*fragment) for fragment in fragments]
    events = pipeline.decode(b"".join(b"data: %b\n\n" % p for p in (*payloads, b"{oops")))
    assert ToolCallDelta('{"a":') in events
    assert isinstance(events[-1], MessageFailed)
    assert "held_chars" in events[-1].message


def test_an_empty_error_is_one_at_any_cut():
    failing = [of_call(0, "", "f"), of_call(0, '{"a"'), of_call(0, ":1"), of_call(0, "]")]
    choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": None, "error": ""}
    check(*failing, json.dumps(HEAD | {"choices": [choice]}).encode())
