"""Answers for OpenAI clients match the types of the official package exactly."""

import json

import pytest
from hypothesis import given, settings
from openai.types.chat import ChatCompletion

from formats import (
    DIALECTS,
    FORMATS,
    Identity,
    MessageFailed,
    ReplyOptions,
    build_pipeline,
    collect,
)
from tests.support.openai_reader import DONE, check_extras, payloads, read
from tests.support.strategies import messages
from tests.support.wire import (
    CREATED,
    HEAD,
    anthropic_stream,
    chunk,
    data,
    decode,
    relay,
    stream,
)

OURS = Identity(token="tok", message_id="chatcmpl-ours", model="requested-model")
OPTIONS = ReplyOptions(created=1_750_000_000)
THEIRS = {"id": "gen-1", "model": "vendor/model", "created": 1_772_239_251}


@given(events=messages())
@settings(max_examples=12)
def test_every_chunk_of_any_answer_is_of_the_official_type(events):
    if isinstance(events[-1], MessageFailed):
        return
    out = DIALECTS["openai"].encoder(OPTIONS).feed(events)
    assert read(out).head == ("msg_1", "m", OPTIONS.created)
    assert payloads(out)[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}


@given(events=messages())
@settings(max_examples=15)
def test_a_whole_completion_is_of_the_official_type(events):
    if isinstance(events[-1], MessageFailed):
        return
    payload = json.loads(DIALECTS["openai"].encode_reply(collect(events), OPTIONS))
    completion = ChatCompletion.model_validate(payload, strict=True)
    check_extras(completion)
    assert completion.created == OPTIONS.created


@pytest.mark.parametrize("created", [CREATED, None], ids=["passed through", "rewritten"])
@pytest.mark.parametrize("requested", [True, False])
def test_usage_is_sent_only_if_requested(created, requested):
    counts = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    usage = data({**HEAD, "created": created, "choices": [], "usage": counts})
    body = chunk({"content": "Hi"}, "stop", created=created) + usage + DONE
    out = relay(body, client="openai", options=ReplyOptions(created=5, include_usage=requested))
    assert read(out).usage == (counts if requested else None)


def test_extra_fields_of_an_upstream_are_only_passed_through():
    added = {"provider": "P", "system_fingerprint": "x", "native_finish_reason": "STOP"}
    body = chunk({"content": "Hi", "annotations": []}, **added) + stream()
    assert relay(body, client="openai") == body
    rewritten = relay(chunk({"content": "Hi"}, created=None, **added) + stream(), client="openai")
    assert read(rewritten).text == "Hi"
    assert not any(payload.keys() & added.keys() for payload in payloads(rewritten))


@pytest.mark.parametrize("name", [*HEAD, "choices"])
def test_a_stream_whose_first_chunk_lacks_a_required_field_is_rewritten(name):
    first = json.loads(chunk({"role": "assistant", "content": ""}).removeprefix(b"data: "))
    del first[name]
    body = data(first) + stream({"content": "Hi"})
    answer = read(relay(body, client="openai", identity=OURS, options=OPTIONS))
    ours = {"id": OURS.message_id, "model": OURS.model, "created": OPTIONS.created}
    expected = {key: first.get(key, ours[key]) for key in ours}
    assert (answer.text, answer.head) == ("Hi", tuple(expected[key] for key in THEIRS))


def test_a_stream_with_the_wrong_object_field_is_rewritten():
    # The helper of OpenAI's package ignores chunks with this value.
    body = chunk({"content": "Hi"}, "stop", object="chat.completion") + DONE
    assert read(relay(body, client="openai")).text == "Hi"


def test_an_error_in_a_rewritten_stream_has_only_the_fields_of_openai():
    body = chunk({"content": "Hi"}, created=None) + data({"error": {"message": "no"}})
    out = relay(body, client="openai")
    last = json.loads(out.strip().split(b"\n\n")[-1].removeprefix(b"data: "))
    assert last == {
        "error": {"message": "no", "type": "server_error", "param": None, "code": "server_error"}
    }


@pytest.mark.parametrize("format_name", FORMATS)
def test_id_model_and_time_of_an_openai_upstream_are_kept(format_name):
    body = chunk({"content": "Hi"}, **THEIRS) + chunk({}, "stop", **THEIRS) + DONE
    options = {"format_name": format_name, "identity": OURS}
    out = relay(body, client="openai", options=OPTIONS, **options)
    assert read(out).head == tuple(THEIRS.values())
    pipeline = build_pipeline(client="openai", upstream="openai", **options)
    reply = collect(pipeline.decode(body) + pipeline.decode_end())
    whole = json.loads(DIALECTS["openai"].encode_reply(reply, OPTIONS))
    assert {name: whole[name] for name in THEIRS} == THEIRS


@pytest.mark.parametrize("created", [None, 0, "soon", -1])
def test_fields_that_an_openai_upstream_omits_are_set_by_the_gateway(created):
    body = chunk({"content": "Hi"}, "stop", id=None, model=None, created=created)
    out = relay(body, client="openai", identity=OURS, options=OPTIONS)
    assert read(out).head == ("chatcmpl-ours", "requested-model", OPTIONS.created)


def test_a_translated_answer_has_the_requested_model_name():
    body = anthropic_stream(decode(stream({"content": "Hi"})))
    options = {"upstream": "anthropic", "identity": OURS, "options": OPTIONS}
    assert read(relay(body, client="openai", **options)).head == (
        "chatcmpl-ours", "requested-model", OPTIONS.created,
    )  # fmt: skip


@pytest.mark.parametrize("upstream", DIALECTS)
def test_an_anthropic_client_gets_the_names_of_anthropic_upstreams_only(upstream):
    body = chunk({"content": "Hi"}, "stop", **THEIRS)
    if upstream == "anthropic":
        body = anthropic_stream(decode(body))
    out = relay(body, client="anthropic", upstream=upstream, identity=OURS)
    start = json.loads(out.split(b"\n")[1].removeprefix(b"data: "))["message"]
    ours, theirs = ("chatcmpl-ours", "requested-model"), (THEIRS["id"], THEIRS["model"])
    assert (start["id"], start["model"]) == (theirs if upstream == "anthropic" else ours)
