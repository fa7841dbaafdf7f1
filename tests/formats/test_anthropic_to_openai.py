"""An OpenAI client of an Anthropic upstream, tested with Anthropic's frames.

The first seven tests cover a defect in Cursor: its streams stopped after the first tool.
"""

import json
from typing import Any

import pytest

from formats import Notice, NoticeCode, Pipeline, ReplyOptions, build_pipeline
from tests.support.official_sdks import QUESTION, openai_client
from tests.support.openai_reader import Answer, payloads, read
from tests.support.wire import IDENTITY, byte_cuts, decode, relay

OPTIONS = ReplyOptions(created=1_750_000_000)


def frame(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (
        kind.encode(),
        json.dumps({"type": kind, **fields}, ensure_ascii=False).encode(),
    )


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    frames = [frame("content_block_start", index=index, content_block=start)]
    frames += [frame("content_block_delta", index=index, delta=delta) for delta in deltas]
    return b"".join([*frames, frame("content_block_stop", index=index)])


def text(index: int, *pieces: str) -> bytes:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": ""}, *deltas)


def tool_block(index: int, name: str, *pieces: str) -> bytes:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    start = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
    return block(index, start, *deltas)


def message(*blocks: bytes, stop: str = "tool_use") -> bytes:
    start: dict[str, Any] = {
        "id": "msg_01", "type": "message", "role": "assistant", "model": "claude-sonnet-4",
        "content": [], "stop_reason": None, "stop_sequence": None,
        "usage": {"input_tokens": 472, "output_tokens": 2, "cache_read_input_tokens": 100},
    }  # fmt: skip
    delta = {"stop_reason": stop, "stop_sequence": None}
    end = frame("message_delta", delta=delta, usage={"output_tokens": 89})
    head = frame("message_start", message=start) + frame("ping")
    return head + b"".join(blocks) + end + frame("message_stop")


def answer_to(*blocks: bytes, **options: Any) -> Answer:
    return read(relayed(*blocks, **options))


def relayed(*blocks: bytes, **options: Any) -> bytes:
    body = message(*blocks, **options)
    return relay(body, client="openai", upstream="anthropic", options=OPTIONS)


def notices(*blocks: bytes) -> list[str]:
    events = decode(message(*blocks), upstream="anthropic")
    notice_events = [event for event in events if isinstance(event, Notice)]
    return [notice.detail for notice in notice_events if notice.code is NoticeCode.UNKNOWN_EVENT]


WEATHER = ('{"location', '": "San Fra', 'ncisco, CA"}')


def test_1_text_deltas_become_content():
    answer = answer_to(text(0, "Hello", " there"), stop="end_turn")
    assert (answer.text, answer.calls, answer.finish) == ("Hello there", [], "stop")


def test_2_input_json_deltas_become_fragments_of_arguments():
    fragments = [
        entry["function"]["arguments"]
        for payload in payloads(relayed(tool_block(0, "weather", *WEATHER)))
        for choice in payload["choices"]
        for entry in choice["delta"].get("tool_calls", ())
    ]
    # All fragments of one read become one delta.
    assert "".join(fragments) == '{"location": "San Francisco, CA"}'
    assert fragments[0] == ""


def test_3_text_and_tools_mix_in_one_stream():
    answer = answer_to(text(0, "Look: "), tool_block(1, "weather", *WEATHER), text(2, "Done."))
    assert answer.text == "Look: Done."
    assert [call["name"] for call in answer.calls] == ["weather"]
    assert answer.finish == "tool_calls"


def test_4_names_and_arguments_are_kept():
    given = {"path": "a b.py", "text": 'x = "潮"\n', "n": 1.50}
    whole = json.dumps(given, ensure_ascii=False)
    [call] = answer_to(tool_block(0, "mcp__files-write", whole[:7], whole[7:])).calls
    assert (call["id"], call["name"], call["text"]) == ("toolu_0", "mcp__files-write", whole)


@pytest.mark.parametrize("pieces", [(), ("",), ("{}",), ("", "{", "}")])
def test_5_empty_input_is_an_empty_object(pieces):
    [call] = answer_to(tool_block(0, "now", *pieces)).calls
    assert call["text"] == "{}"


def test_6_unknown_events_give_a_notice_and_never_fail_the_message():
    odd = (
        frame("sparkle", index=0),
        frame("content_block_delta", index=1, delta={"type": "hologram_delta", "data": "x"}),
    )
    blocks = (text(0, "Hi"), *odd, tool_block(1, "weather", *WEATHER), odd[0])
    assert notices(*blocks) == ["sparkle", "hologram_delta", "sparkle"]
    answer = answer_to(*blocks)
    assert (answer.text, len(answer.calls), answer.finish) == ("Hi", 1, "tool_calls")


def test_7_a_message_with_several_tools_is_read_to_its_end():
    body = message(
        text(0, "First. "), tool_block(1, "read", '{"path":"a"}'), text(2, "Then. "),
        tool_block(3, "read", '{"path":"b"}'), tool_block(4, "run"), text(5, "Now wait."),
    )  # fmt: skip
    for parts in byte_cuts(body, 3):
        pipeline = chat_pipeline()
        answer = read(b"".join(map(pipeline.feed, parts)) + pipeline.close())
        assert answer.text == "First. Then. Now wait."
        assert [call["text"] for call in answer.calls] == ['{"path":"a"}', '{"path":"b"}', "{}"]
        assert answer.finish == "tool_calls"


def chat_pipeline() -> Pipeline:
    return build_pipeline(
        client="openai", upstream="anthropic", format_name="standard", identity=IDENTITY,
        options=OPTIONS,
    )  # fmt: skip


def test_calls_have_their_own_index_and_the_first_delta_has_the_id():
    body = relayed(
        text(0, "Hi"), tool_block(1, "a", '{"x"', ":1}"), text(2, "and"), tool_block(3, "b", "{}")
    )
    entries = [
        entry
        for payload in payloads(body)
        for choice in payload["choices"]
        for entry in choice["delta"].get("tool_calls", ())
    ]
    assert [(entry["index"], entry.get("id"), entry.get("type")) for entry in entries] == [
        (0, "toolu_1", "function"), (0, None, None), (1, "toolu_3", "function"), (1, None, None),
    ]  # fmt: skip


def test_thinking_becomes_reasoning_with_its_signature():
    thinking = block(
        0, {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hm, "}, {"type": "thinking_delta", "thinking": "so."},
        {"type": "signature_delta", "signature": "c2VhbA=="},
    )  # fmt: skip
    body = relayed(thinking, text(1, "Yes."), stop="end_turn")
    answer = read(body)
    assert (answer.reasoning, answer.text) == ("Hm, so.", "Yes.")
    assert b'"signature":"c2VhbA=="' in body


def test_concurrent_streams_do_not_affect_each_other():
    bodies = [
        message(text(0, "One"), tool_block(1, "a", '{"n":', "1}"), tool_block(2, "b")),
        message(tool_block(0, "c", '{"n":', "2}"), text(1, "Two")),
    ]
    alone = []
    for body in bodies:
        pipeline = chat_pipeline()
        alone.append(b"".join(pipeline.feed(body[at : at + 50]) for at in range(0, len(body), 50)))
    pipelines, together = [chat_pipeline(), chat_pipeline()], [b"", b""]
    for at in range(0, max(map(len, bodies)), 50):
        for which, pipeline in enumerate(pipelines):
            together[which] += pipeline.feed(bodies[which][at : at + 50])
    assert together == alone


def test_usage_includes_the_cache_and_created_is_the_gateways_time():
    answer = answer_to(text(0, "Hi"), stop="end_turn")
    assert answer.usage == {
        "prompt_tokens": 572,
        "completion_tokens": 89,
        "total_tokens": 661,
        "prompt_tokens_details": {"cached_tokens": 100},
    }
    assert answer.head == ("msg_01", "claude-sonnet-4", 1_750_000_000)


@pytest.mark.parametrize(
    ("stop", "finish"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"),
     ("refusal", "content_filter"), ("pause_turn", "stop"), ("something_new", "stop")],
)  # fmt: skip
def test_every_stop_reason_has_an_openai_finish_reason(stop, finish):
    assert answer_to(text(0, "Hi"), stop=stop).finish == finish


def test_a_truncated_call_is_an_error():
    cut = frame("content_block_start", index=0, content_block={"type": "tool_use", "id": "t",
                "name": "f"}) + frame("content_block_delta", index=0,
                delta={"type": "input_json_delta", "partial_json": '{"a"'})  # fmt: skip
    body = relayed(cut)
    assert b"[DONE]" not in body
    assert b'data: {"error":' in body


def test_the_official_package_rebuilds_a_tool_heavy_answer():
    body = relayed(
        text(0, "Hi "), *(tool_block(n, "read", '{"path":', f'"{n}"}}') for n in range(1, 9))
    )
    with openai_client(body).chat.completions.stream(model="m", messages=QUESTION) as answer:
        completion = answer.get_final_completion().choices[0].message
    assert completion.content == "Hi "
    assert [json.loads(call.function.arguments) for call in completion.tool_calls] == [
        {"path": str(n)} for n in range(1, 9)
    ]
    assert [call.id for call in completion.tool_calls] == [f"toolu_{n}" for n in range(1, 9)]
