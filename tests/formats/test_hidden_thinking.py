"""A model that cannot stop thinking gets room for it, and the client does not see the thinking."""

import json

import pytest

from formats import DIALECTS, Identity, NoticeCode, Target, build_pipeline
from tests.support.client_views import view

MODEL = Target(model="m", thinking_tokens=2048)
THINKING_OFF = {
    "anthropic": {"thinking": {"type": "disabled"}},
    "openai": {"reasoning": {"enabled": False}},
}
THOUGHT, ANSWER = "Is it safe? It deletes files.", "<severity>3"
PAIRS = [(client, upstream) for client in DIALECTS for upstream in DIALECTS]


def request(client, **fields):
    message = {"role": "user", "content": "Grade it."}
    body = {"model": "m", "max_tokens": 64, "messages": [message], **fields}
    return DIALECTS[client].parse(json.dumps(body).encode())


def answer(upstream, text, *, streamed):
    """An answer with thinking and text, as bytes."""
    if upstream == "anthropic":
        usage = {"input_tokens": 9, "output_tokens": 700}
        blocks = [
            {"type": "thinking", "thinking": THOUGHT, "signature": "s"},
            {"type": "text", "text": text},
        ]
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        if not streamed:
            return json.dumps({**head, **end, "content": blocks, "usage": usage}).encode()
        events = [
            {"type": "message_start", "message": {**head, **end, "content": [], "usage": usage}}
        ]
        deltas = [
            [
                {"type": "thinking_delta", "thinking": THOUGHT},
                {"type": "signature_delta", "signature": "s"},
            ],
            [{"type": "text_delta", "text": part} for part in (text[:4], text[4:])],
        ]
        starts = [
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "text", "text": ""},
        ]
        for index, start in enumerate(starts):
            events.append({"type": "content_block_start", "index": index, "content_block": start})
            events += [
                {"type": "content_block_delta", "index": index, "delta": delta}
                for delta in deltas[index]
            ]
            events.append({"type": "content_block_stop", "index": index})
        events.append({"type": "message_delta", "delta": end, "usage": usage})
        events.append({"type": "message_stop"})
        return b"".join(
            b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())
            for event in events
        )
    usage = {"prompt_tokens": 9, "completion_tokens": 700, "total_tokens": 709}
    head = {"id": "c1", "created": 1, "model": "m"}
    if not streamed:
        message = {"role": "assistant", "reasoning_content": THOUGHT, "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        return json.dumps(body).encode()
    deltas = [{"role": "assistant", "reasoning_content": THOUGHT}]
    deltas += [{"content": text[:4]}, {"content": text[4:]}]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    chunks = [{**head, "object": "chat.completion.chunk", "choices": [c]} for c in choices]
    chunks.append({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    data = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    return data + b"data: [DONE]\n\n"


def delivered(client, upstream, text, *, streamed, hides=True):
    """Return the client's bytes."""
    pipeline = build_pipeline(
        client=client,
        upstream=upstream,
        format_name="standard",
        identity=Identity(token="t", message_id="own", model="m"),
        hides_thinking=hides,
        max_tokens=64,
    )
    body = answer(upstream, text, streamed=streamed)
    if not streamed:
        return pipeline.encode(pipeline.decode_whole(body))
    return b"".join(pipeline.feed(bytes([byte])) for byte in body) + pipeline.close()


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_thinking_that_the_client_switched_off_is_not_shown(client, upstream, streamed):
    """C5: auto mode's safety check has 64 tokens and no thinking."""
    shown = delivered(client, upstream, ANSWER, streamed=streamed, hides=False)
    assert b"Is it safe" in shown  # the words of an ordinary answer arrive
    sent = delivered(client, upstream, ANSWER, streamed=streamed)
    assert b"Is it safe" not in sent
    assert view(sent, client).text == ANSWER
    assert b"700" in sent  # the usage is the upstream's


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_the_text_stays_within_the_clients_limit(client, upstream, streamed):
    """C5: the upstream was allowed more tokens than the client."""
    sent = delivered(client, upstream, "nö " * 400, streamed=streamed)
    seen = view(sent, client)
    assert seen.text == "nö " * 64  # 4 bytes each
    assert (b'"max_tokens"' if client == "anthropic" else b'"length"') in sent


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_the_upstream_is_asked_for_more_tokens_only_if_thinking_is_off(client, upstream):
    """C5: 64 tokens are too few for a model that thinks first."""
    off = DIALECTS[upstream].render(request(client, **THINKING_OFF[client]), MODEL)
    assert json.loads(off.body)["max_tokens"] == 64 + 2048
    assert NoticeCode.THINKING_HIDDEN in [notice.code for notice in off.notices]
    for conversation, target in [
        (request(client), MODEL),
        (request(client, **THINKING_OFF[client]), Target(model="m")),
    ]:
        rendered = DIALECTS[upstream].render(conversation, target)
        assert json.loads(rendered.body)["max_tokens"] == 64


def test_the_room_for_thinking_stays_within_the_routes_limit():
    target = Target(model="m", thinking_tokens=2048, max_tokens=1000)
    rendered = DIALECTS["openai"].render(request("anthropic", **THINKING_OFF["anthropic"]), target)
    assert json.loads(rendered.body)["max_tokens"] == 1000


@pytest.mark.parametrize(
    ("field", "expected"),
    [("openrouter", {"reasoning": {"effort": "low"}}), ("effort", {"reasoning_effort": "low"})],
)
def test_a_model_that_must_think_is_not_asked_to_stop(field, expected):
    target = Target(model="m", thinking_tokens=2048, reasoning_request=field)
    conversation = request("anthropic", **THINKING_OFF["anthropic"])
    assert (
        expected.items() <= json.loads(DIALECTS["openai"].render(conversation, target).body).items()
    )
