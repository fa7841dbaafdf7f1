"""Answers are read like a client reads them; the expected ones match those of the mock."""

from bench.answers import _read_stream, _read_whole, _size
from bench.scenarios import SCENARIOS, growing_arguments, growing_text

STREAM = b"""event: message_start
data: {"type": "message_start", "message": {"usage": {}}}

event: content_block_start
data: {"type": "content_block_start", "content_block": {"type": "tool_use", "name": "Read"}}

event: content_block_delta
data: {"type": "content_block_delta", "delta": {"partial_json": "{\\"a\\":"}}

event: content_block_delta
data: {"type": "content_block_delta", "delta": {"partial_json": " 1}"}}

event: message_delta
data: {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}

event: message_stop
data: {"type": "message_stop"}

data: [DONE]

"""


def test_a_stream_is_read_to_its_end_and_later_data_is_ignored():
    answer = _read_stream(STREAM)
    assert answer.ended
    assert answer.stop_reason == "tool_use"
    assert [(name, _size("".join(parts))) for name, parts in answer.calls] == [("Read", 7)]


def test_a_truncated_stream_has_not_ended():
    assert not _read_stream(STREAM.partition(b"event: message_stop")[0]).ended


def test_a_whole_answer_is_read():
    answer = _read_whole(
        b'{"stop_reason": "end_turn", "content": [{"type": "text", "text": "hi"},'
        b' {"type": "tool_use", "name": "Read", "input": {"a": 1}}]}'
    )
    assert (answer.text, answer.stop_reason) == ("hi", "end_turn")
    assert answer.calls == [("Read", ['{"a": 1}'])]


def test_growing_answers_match_the_scenarios():
    assert growing_text(200).text == SCENARIOS["B"].text
    assert growing_text(126).text == SCENARIOS["A"].text
    assert growing_arguments(40_000).calls == SCENARIOS["F"].calls
