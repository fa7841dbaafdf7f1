"""What an OpenAI client gets, held against the types of the official package: no more, no less."""

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

OURS = Identity(token="tok", message_id="chatcmpl-ours", model="asked-for")
OPTIONS = ReplyOptions(created=1_750_000_000)
THEIRS = {"id": "gen-1", "model": "vendor/model", "created": 1_772_239_251}


@given(events=messages())
@settings(max_examples=25)
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


@pytest.mark.parametrize("created", [CREATED, None], ids=["as it came", "written anew"])
@pytest.mark.parametrize("asked", [True, False])
def test_usage_is_there_only_when_it_was_asked_for(created, asked):
    counts = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    usage = data({**HEAD, "created": created, "choices": [], "usage": counts})
    body = chunk({"content": "Hi"}, "stop", created=created) + usage + DONE
    out = relay(body, client="openai", options=ReplyOptions(created=5, include_usage=asked))
    assert read(out).usage == (counts if asked else None)


def test_what_an_upstream_adds_to_openais_fields_goes_on_with_its_bytes_only():
    added = {"provider": "P", "system_fingerprint": "x", "native_finish_reason": "STOP"}
    body = chunk({"content": "Hi", "annotations": []}, **added) + stream()
    assert relay(body, client="openai") == body
    anew = relay(chunk({"content": "Hi"}, created=None, **added) + stream(), client="openai")
    assert read(anew).text == "Hi"
    assert not any(payload.keys() & added.keys() for payload in payloads(anew))


@pytest.mark.parametrize("name", [*HEAD, "choices"])
def test_a_stream_whose_first_chunk_lacks_what_openais_types_require_is_written_anew(name):
    first = json.loads(chunk({"role": "assistant", "content": ""}).removeprefix(b"data: "))
    del first[name]
    body = data(first) + stream({"content": "Hi"})
    answer = read(relay(body, client="openai", identity=OURS, options=OPTIONS))
    ours = {"id": OURS.message_id, "model": OURS.model, "created": OPTIONS.created}
    said = {key: first.get(key, ours[key]) for key in ours}
    assert (answer.text, answer.head) == ("Hi", tuple(said[key] for key in THEIRS))


def test_so_is_one_that_calls_its_chunks_completions_which_openais_helper_passes_over():
    body = chunk({"content": "Hi"}, "stop", object="chat.completion") + DONE
    assert read(relay(body, client="openai")).text == "Hi"


def test_an_error_in_a_stream_that_is_written_anew_is_openais_error_alone():
    body = chunk({"content": "Hi"}, created=None) + data({"error": {"message": "no"}})
    out = relay(body, client="openai")
    last = json.loads(out.strip().split(b"\n\n")[-1].removeprefix(b"data: "))
    assert last == {
        "error": {"message": "no", "type": "api_error", "param": None, "code": "api_error"}
    }


@pytest.mark.parametrize("format_name", FORMATS)
def test_an_openai_upstreams_id_model_and_time_are_kept(format_name):
    body = chunk({"content": "Hi"}, **THEIRS) + chunk({}, "stop", **THEIRS) + DONE
    options = {"format_name": format_name, "identity": OURS}
    out = relay(body, client="openai", options=OPTIONS, **options)
    assert read(out).head == tuple(THEIRS.values())
    pipeline = build_pipeline(client="openai", upstream="openai", **options)
    reply = collect(pipeline.decode(body) + pipeline.decode_end())
    whole = json.loads(DIALECTS["openai"].encode_reply(reply, OPTIONS))
    assert {name: whole[name] for name in THEIRS} == THEIRS


@pytest.mark.parametrize("created", [None, 0, "soon", -1])
def test_what_an_openai_upstream_leaves_out_is_the_gateways(created):
    body = chunk({"content": "Hi"}, "stop", id=None, model=None, created=created)
    out = relay(body, client="openai", identity=OURS, options=OPTIONS)
    assert read(out).head == ("chatcmpl-ours", "asked-for", OPTIONS.created)


def test_a_translated_answer_has_the_name_that_was_asked_for():
    body = anthropic_stream(decode(stream({"content": "Hi"})))
    options = {"upstream": "anthropic", "identity": OURS, "options": OPTIONS}
    assert read(relay(body, client="openai", **options)).head == (
        "chatcmpl-ours", "asked-for", OPTIONS.created,
    )  # fmt: skip


@pytest.mark.parametrize("upstream", DIALECTS)
def test_an_anthropic_client_gets_the_names_of_its_own_dialects_upstream_only(upstream):
    body = chunk({"content": "Hi"}, "stop", **THEIRS)
    if upstream == "anthropic":
        body = anthropic_stream(decode(body))
    out = relay(body, client="anthropic", upstream=upstream, identity=OURS)
    start = json.loads(out.split(b"\n")[1].removeprefix(b"data: "))["message"]
    ours, theirs = ("chatcmpl-ours", "asked-for"), (THEIRS["id"], THEIRS["model"])
    assert (start["id"], start["model"]) == (theirs if upstream == "anthropic" else ours)
