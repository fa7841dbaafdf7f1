"""The Anthropic endpoint: every format, as a stream and as a document, over real sockets."""

import json

import pytest

from proxy.configuration.loop_guard import VIA
from tests.support.calls_in_text import CALL, NATIVE
from tests.support.chat import TOOLS, ask, chunk, data, error_of, read, reply, says, stream
from tests.support.scripted_upstream import whole


@pytest.mark.parametrize("pieces", [1, 5, 1000])
@pytest.mark.parametrize("field", ["content", "reasoning", "reasoning_content"])
@pytest.mark.parametrize("name", NATIVE)
def test_a_call_in_the_text_is_rescued_in_both_modes(client, upstream, name, field, pieces):
    text, model = NATIVE[name], f"{name}-{field}-{pieces}"
    step = -(-len(text) // min(pieces, len(text)))
    parts = [text[at : at + step] for at in range(0, len(text), step)]
    wire = [chunk({field: part}) for part in parts] + [chunk({}, "stop"), b"data: [DONE]\n\n"]
    upstream.script(model, reply(*wire))
    seen = read(client.post("/v1/messages", json=ask(model, tools=TOOLS, stream=True)))
    assert seen.calls == [{"name": "get_tide", "arguments": CALL}]
    assert (seen.text.strip(), seen.reasoning.strip(), seen.stop) == ("", "", "tool_use")
    answer = client.post("/v1/messages?beta=true", json=ask(model, tools=TOOLS)).json()
    calls = [block for block in answer["content"] if block["type"] == "tool_use"]
    assert [(call["name"], call["input"]) for call in calls] == [("get_tide", CALL)]
    assert (answer["stop_reason"], answer["model"]) == ("tool_use", model)


def test_structured_calls_pass_through(client, upstream, model):
    function = {"name": "get_tide", "arguments": '{"harbor":"Moss"}'}
    call = {"index": 0, "id": "call_7", "type": "function", "function": function}
    upstream.script(model, reply(stream({"tool_calls": [call]}, finish="tool_calls")))
    seen = read(client.post("/v1/messages", json=ask(model, tools=TOOLS, stream=True)))
    assert (seen.calls[0]["arguments"], seen.ids) == ({"harbor": "Moss"}, ["call_7"])


def test_the_upstream_is_always_asked_to_stream(client, upstream, model):
    script = upstream.script(model, says("Hi"))
    assert client.post("/v1/messages", json=ask(model)).json()["content"][0]["text"] == "Hi"
    assert script.last.json["stream"] is True
    assert script.last.path == "/v1/chat/completions"


def test_an_upstream_that_ignores_stream_and_sends_json_is_read(client, upstream, model):
    message = {"role": "assistant", "content": "Hi"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    completion = {
        "id": "x",
        "model": "m",
        "choices": [choice],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2},
    }
    upstream.script(model, whole(completion))
    seen = read(client.post("/v1/messages", json=ask(model, stream=True)))
    assert (seen.text, seen.stop, seen.usage["input_tokens"]) == ("Hi", "end_turn", 5)
    answer = client.post("/v1/messages", json=ask(model)).json()
    assert answer["usage"] == {"input_tokens": 5, "output_tokens": 2}


def test_usage_is_the_upstreams_and_the_estimate_only_opens_the_message(client, upstream, model):
    usage = {
        "prompt_tokens": 90,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 30},
    }
    wire = chunk({"content": "Hi"}) + chunk({}, "stop") + data({"choices": [], "usage": usage})
    upstream.script(model, reply(wire + b"data: [DONE]\n\n"))
    response = client.post("/v1/messages", json=ask(model, stream=True))
    start = json.loads(response.text.split("data: ")[1].split("\n")[0])
    assert start["message"]["usage"]["input_tokens"] > 0
    assert read(response).usage == {
        "input_tokens": 60,
        "cache_read_input_tokens": 30,
        "output_tokens": 4,
    }


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_comments_line_ends_and_split_characters_are_handled(client, upstream, model, line_end):
    wire = b": OPENROUTER PROCESSING\n\n" + stream(
        {"content": "Grüße 🐙 "}, {"content": "ok\u2028."}
    )
    wire = wire.replace(b"\n", line_end)
    cuts = [wire[at : at + 3] for at in range(0, len(wire), 3)]
    upstream.script(model, reply(*cuts))
    assert (
        read(client.post("/v1/messages", json=ask(model, stream=True))).text == "Grüße 🐙 ok\u2028."
    )


def test_a_line_of_300_kilobytes_is_read(client, upstream, model):
    text = "x" * 300_000
    upstream.script(model, says(text))
    assert read(client.post("/v1/messages", json=ask(model, stream=True))).text == text


def test_a_body_of_30_megabytes_reaches_the_upstream(client, upstream, model):
    script = upstream.script(model, says("Hi"))
    body = ask(model, "x" * 30_000_000, stream=True)
    assert read(client.post("/v1/messages", json=body)).text == "Hi"
    assert len(script.last.body) > 30_000_000


def test_the_response_names_the_requested_model_and_a_new_id(client, upstream, model):
    upstream.script(model, says("Hi"))
    first, second = (client.post("/v1/messages", json=ask(model)).json() for _ in range(2))
    assert first["model"] == second["model"] == model
    assert first["id"] != second["id"]
    assert first["id"].startswith("msg_")


def test_streams_carry_the_headers_that_keep_them_unbuffered(client, upstream, model):
    upstream.script(model, says("Hi"))
    response = client.post("/v1/messages", json=ask(model, stream=True))
    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["request-id"].startswith("req_")


def test_only_allowed_headers_are_forwarded_and_never_the_clients_credential(
    client, upstream, model
):
    script = upstream.script(model, says("Hi"))
    sent = {
        "cookie": "a=b",
        "x-forwarded-for": "1.2.3.4",
        "anthropic-beta": "x",
        "x-stainless-os": "Linux",
    }
    client.post("/v1/messages", json=ask(model), headers=sent)
    assert set(script.last.headers) == {
        "host",
        "content-type",
        "content-length",
        "accept",
        "accept-encoding",
        "user-agent",
        VIA,
        "authorization",
    }
    assert script.last.headers["authorization"] == "Bearer sk-or-canary-of-the-upstream"
    assert script.last.headers["accept-encoding"] == "identity"


def test_a_forwarded_header_is_sent_byte_for_byte(gateway, client, upstream, model):
    gateway.edit(
        "u = Upstream.objects.create(name='house', dialect='anthropic',"
        f" base_url={upstream.url!r})\n"
        f"ModelRoute.objects.create(pattern={model!r}, upstream=u)"
    )
    script = upstream.script(model, whole({"type": "message", "content": []}))
    client.post("/v1/messages", json=ask(model), headers=[(b"anthropic-beta", b"caf\xe9")])
    assert script.last.headers["anthropic-beta"] == "caf\xe9"


def test_a_broken_call_is_an_error_and_never_a_call(client, upstream, kimi):
    text = NATIVE["moonshotai/kimi-k2.5"]
    cut = text[: text.index("days")]
    upstream.script(kimi, says(cut))
    seen = read(client.post("/v1/messages", json=ask(kimi, tools=TOOLS, stream=True)))
    assert (seen.calls, seen.error) == ([], "format_transformation_error")
    response = client.post("/v1/messages", json=ask(kimi, tools=TOOLS))
    assert error_of(response)[:2] == (502, "format_transformation_error")
    assert response.headers["x-athena-error"] == "call_truncated"
