"""Rows and transcripts of exchanges, written by a real gateway process."""

import json
import random
import signal
import string
import time

import pytest

from formats import FORMATS, MessageEnd, MessageStart, StopReason, TextDelta, Usage
from proxy.audit.transcripts.codec import load_event
from proxy.audit.transcripts.replay_input import decode_again
from tests.support import openai_reader
from tests.support.chat import END, TOOLS, ask, chunk, data, reply, says, stream
from tests.support.client_views import view
from tests.support.custom_tools import NESTED, PATCH, structured
from tests.support.database import dump
from tests.support.gateway import KEY, Gateway
from tests.support.native_calls import write_call
from tests.support.raw_client import start_request
from tests.support.scripted_upstream import Close, Hold, Pause, whole
from tests.support.waiting import wait_for
from tests.support.wire import anthropic_stream

UPSTREAM_KEY = "sk-or-canary-of-the-upstream"
USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 20},
}
CALL = {
    "index": 0,
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_tide", "arguments": '{"harbor":"Bergen"}'},
}
KIMI = (
    "Let me see. <|tool_calls_section_begin|><|tool_call_begin|>functions.get_tide:0"
    '<|tool_call_argument_begin|>{"harbor": "Bergen"}<|tool_call_end|><|tool_calls_section_end|>'
)
BROKEN = KIMI.replace('"Bergen"}', '"Bergen"')
# Models whose format is not detected by its own name.
MODELS = {
    "gemma": "gemma-4",
    "lfm": "lfm-2",
    "llama": "llama-4",
    "phi": "phi-4",
    "seed": "seed-oss",
    "step": "step-3",
    "standard": "gpt-4",
}


def letters():
    return "".join(random.choices(string.ascii_lowercase, k=12))


@pytest.fixture
def model():
    """A model of a family that no other test uses, so that its failures are a kind of their own."""
    return f"test/{letters()}-1"


def streamed(client, model, **fields):
    return client.post("/v1/messages", json=ask(model, stream=True, **fields))


@pytest.fixture(scope="session")
def keeper(upstream, tmp_path_factory):
    """A gateway that keeps the transcript of every exchange."""
    gateway = Gateway(
        tmp_path_factory.mktemp("keeper"),
        OPENROUTER_API_KEY=UPSTREAM_KEY,
        OPENROUTER_BASE_URL=upstream.url,
    ).start()
    gateway.edit(
        "s = GatewaySettings.objects.get()\n"
        "s.sample_calls = s.sample_others = 1; s.transcript_bytes = 65536; s.failures_per_hour = 3\n"
        "s.drain_time = 1; s.save()\n"
        "o = Upstream.objects.get(name='openrouter')\n"
        "a = Upstream.objects.create(name='claude', service='anthropic', dialect='anthropic',"
        f" base_url={upstream.url!r}); a.store_key('sk-ant-canary-of-the-other'); a.save()\n"
        "q = Upstream.objects.create(name='quick', idle_timeout=1, first_byte_timeout=1,"
        f" base_url={upstream.url!r})\n"
        "f = ModelRoute.objects.create(pattern='spare', upstream=o, upstream_model='test/spare')\n"
        "ModelRoute.objects.create(pattern='first-*', upstream=q, fallback=f)\n"
        "ModelRoute.objects.create(pattern='quick-*', upstream=q)\n"
        "ModelRoute.objects.create(pattern='unsampled-*', upstream=o, sample_calls=0)\n"
        "ModelRoute.objects.create(pattern='anthropic-*', upstream=a)\n"
        "FormatOverride.objects.create(pattern='house/*', format='kimi')\n"
        "k = ClientKey(label='private', capture_content=False); k.adopt('sk-athena-private-key');"
        " k.save()"
    )
    yield gateway
    gateway.stop()


@pytest.fixture
def client(keeper):
    with keeper.client(**{"user-agent": "claude-cli/2.0", "x-claude-code-session-id": "s-1"}) as it:
        yield it


def test_a_streamed_answer_with_a_tool_call_is_one_row_with_every_column(
    keeper, client, upstream, model
):
    parts = [
        chunk({"content": "See."}, provider="Parasail"),
        chunk({"tool_calls": [CALL]}),
        chunk({}, "tool_calls"),
        data({"id": "c", "choices": [], "usage": USAGE}),
        b"data: [DONE]\n\n",
    ]
    upstream.script(model, reply(*parts))
    before = time.time()
    response = streamed(client, model, tools=TOOLS)
    row = keeper.exchange(response)
    assert {name: row[name] for name in row if name not in _MEASURED} == {
        "request_id": response.headers["request-id"],
        "key_id": 1,
        "user_agent": "claude-cli/2.0",
        "session_id": "s-1",
        "dialect": "anthropic",
        "model": model,
        "route": "default",
        "upstream": "openrouter",
        "upstream_model": model,
        "served_by": "Parasail",
        "format": "auto",
        "format_reason": "default",
        "is_streaming": 1,
        "status": 200,
        "outcome": "ok",
        "error_code": "",
        "error_source": "",
        "error_phase": "",
        "error_message": "",
        "stop_reason": "tool_use",
        "tool_calls": 1,
        "rescued_calls": 0,
        "notices": [],
        "leaked_format": "",
        "family_read": None,
        "attempts": [],
        "input_tokens": 100,
        "output_tokens": 7,
        "cache_read_tokens": 20,
        "cache_creation_tokens": None,
        "bytes_in": len(response.request.content),
        "bytes_upstream": sum(map(len, parts)),
        "bytes_out": len(response.content),
        "group_id": None,
    }
    assert row["created_at"] > time.strftime("%Y-%m-%d %H:%M", time.gmtime(before - 60))
    assert 0 < row["gateway_ms"] <= row["duration_ms"] < 60_000
    assert 0 < row["first_byte_ms"] <= row["duration_ms"]
    assert row["configuration_version"] == keeper._version()
    assert row["input_estimate"] > 10


_MEASURED = {
    "id",
    "created_at",
    "gateway_ms",
    "duration_ms",
    "first_byte_ms",
    "configuration_version",
    "input_estimate",
}


def test_an_answer_without_streaming_is_one_row_with_its_size(keeper, client, upstream, model):
    body = {
        "id": "c",
        "provider": "Parasail",
        "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
        "usage": USAGE,
    }
    upstream.script(model, whole(body))
    response = client.post("/v1/messages", json=ask(model))
    row = keeper.exchange(response)
    assert (row["outcome"], row["is_streaming"], row["stop_reason"]) == ("ok", 0, "end_turn")
    assert (row["served_by"], row["input_tokens"], row["output_tokens"]) == ("Parasail", 100, 7)
    assert row["bytes_upstream"] == len(json.dumps(body))
    assert row["bytes_out"] == len(response.content)


@pytest.mark.realtime
def test_first_byte_and_duration_are_measured_for_the_client(keeper, client, upstream, model):
    upstream.script(model, [Pause(0.3), *reply(chunk({"content": "a"}), Pause(0.4), END)])
    row = keeper.exchange(streamed(client, model))
    assert 300 <= row["first_byte_ms"] < 600
    assert 700 <= row["duration_ms"] < 1200
    assert row["gateway_ms"] < 100


def test_a_row_says_why_its_format_was_chosen(keeper, client, upstream):
    for name, chosen in (
        (f"moonshotai/kimi-{letters()}", ("kimi", "detection")),
        (f"house/{letters()}", ("kimi", "override")),
        (f"vendor/{letters()}", ("auto", "default")),
        (f"openai/{letters()}", ("standard", "default")),
    ):
        upstream.script(name, says("Hi"))
        row = keeper.exchange(streamed(client, name))
        assert (row["format"], row["format_reason"]) == chosen


def test_rescued_calls_and_notices_are_counted(keeper, client, upstream):
    name = f"moonshotai/kimi-{letters()}"
    upstream.script(name, says(KIMI))
    row = keeper.exchange(streamed(client, name, tools=TOOLS))
    assert (row["tool_calls"], row["rescued_calls"], row["stop_reason"]) == (1, 1, "tool_use")
    assert ["rescued", 1] in [[code, count] for code, _, count in row["notices"]]


def test_a_refused_request_is_a_client_error(keeper, client, model):
    response = client.post("/v1/messages", json=ask(model, messages=[]))
    row = keeper.exchange(response)
    assert (row["outcome"], row["status"], row["error_code"]) == (
        "client_error",
        400,
        "invalid_request",
    )
    assert (row["error_source"], row["error_phase"], row["group_id"]) == ("client", "request", None)
    assert row["error_message"] in response.json()["error"]["message"]
    assert row["bytes_out"] == len(response.content)
    assert (
        keeper.rows("SELECT * FROM proxy_failuregroup WHERE error_code = 'invalid_request'") == []
    )


def test_a_request_without_a_valid_key_leaves_no_row(keeper, upstream, model):
    with keeper.client(**{"x-api-key": "sk-athena-unknown-key"}) as unknown:
        assert streamed(unknown, model).status_code == 401
    with keeper.client() as known:
        upstream.script(model, says("Hi"))
        keeper.exchange(streamed(known, model))
    assert not keeper.rows("SELECT * FROM proxy_exchange WHERE status = 401")


@pytest.mark.parametrize("streaming", [True, False])
def test_an_upstream_error_has_the_upstreams_message(keeper, client, upstream, model, streaming):
    upstream.script(model, whole({"error": {"message": "no capacity today"}}, status=500))
    response = client.post("/v1/messages", json=ask(model, stream=streaming))
    row = keeper.exchange(response)
    assert (row["outcome"], row["error_code"]) == ("upstream_error", "upstream_error")
    assert (row["error_source"], row["error_phase"]) == ("upstream", "answer")
    assert "no capacity today" in row["error_message"]
    assert (row["attempts"], row["status"]) == ([], response.status_code)
    kept = keeper.transcript(row)
    assert b"no capacity today" in kept["raw"]
    assert kept["sent"] == response.content
    assert json.loads(kept["request"])["model"] == model


def test_an_answer_that_breaks_off_is_an_upstream_error_in_the_body_phase(
    keeper, client, upstream, model
):
    upstream.script(model, [*reply(chunk({"content": "one"}), ends=False), Close])
    row = keeper.exchange(streamed(client, model))
    assert (row["outcome"], row["error_phase"], row["status"]) == ("upstream_error", "body", 200)
    assert keeper.transcript(row)["events"][-1][0] == "MessageFailed"


@pytest.mark.parametrize("streaming", [True, False])
def test_an_undecodable_answer_is_a_failed_translation(keeper, client, upstream, streaming):
    name = f"house/{letters()}"
    upstream.script(name, reply(stream({"content": BROKEN})))
    response = client.post("/v1/messages", json=ask(name, stream=streaming, tools=TOOLS))
    row = keeper.exchange(response)
    assert (row["outcome"], row["error_code"]) == ("transform_failed", "call_invalid_json")
    assert (row["error_phase"], row["tool_calls"]) == ("translation", 0)
    events = keeper.transcript(row)["events"]
    assert [name for name, _ in events][-2:] == ["ToolCallFailed", "MessageFailed"]


def test_a_failure_in_the_first_read_keeps_its_events_and_served_by(
    keeper, client, upstream, model
):
    failed = b'data: {"provider":"Parasail","error":{"message":"overheated","code":500}}\n\n'
    upstream.script(model, reply(chunk({"role": "assistant"}, provider="Parasail"), failed))
    row = keeper.exchange(streamed(client, model))
    assert (row["outcome"], row["served_by"]) == ("upstream_error", "Parasail")
    kept = keeper.transcript(row)
    assert kept["events"][-1][0] == "MessageFailed"
    assert b"overheated" in kept["raw"]


@pytest.mark.parametrize("streaming", [True, False])
def test_a_client_disconnect_is_not_a_failure(keeper, upstream, model, streaming):
    script = upstream.script(model, reply(chunk({"content": "one"}), Pause(20)))
    connection = start_request(keeper, ask(model, stream=streaming))
    wait_for(lambda: script.requests)
    connection.close()
    row = keeper.exchange(model=model)
    assert (row["outcome"], row["error_code"], row["group_id"]) == ("client_disconnect", "", None)


def test_a_silent_upstream_is_a_timeout_before_and_during_the_answer(keeper, client, upstream):
    name = f"quick-{letters()}"
    upstream.script(name, [Pause(20)])
    row = keeper.exchange(streamed(client, name))
    assert (row["outcome"], row["error_code"], row["error_phase"]) == (
        "timeout",
        "first_byte_timeout",
        "answer",
    )
    upstream.script(name, reply(chunk({"content": "one"}), Pause(20)))
    row = keeper.exchange(streamed(client, name))
    assert (row["outcome"], row["error_code"], row["error_phase"]) == (
        "timeout",
        "upstream_idle",
        "body",
    )


def test_an_answer_stopped_by_a_restart_is_recorded_as_drained(upstream, model, tmp_path):
    gateway = Gateway(
        tmp_path, OPENROUTER_API_KEY=UPSTREAM_KEY, OPENROUTER_BASE_URL=upstream.url
    ).start()
    gateway.edit("s = GatewaySettings.objects.get(); s.drain_time = 0.5; s.save()")
    upstream.script(model, reply(chunk({"content": "one"}), Pause(30)))
    with start_request(gateway, ask(model, stream=True)) as connection:
        assert connection.recv(65536)
        assert gateway.stop(signal.SIGTERM) == 0
    row = gateway.exchange(model=model)
    assert (row["outcome"], row["error_code"], row["group_id"]) == ("drained", "draining", None)


def test_a_retry_records_only_the_error_of_its_first_attempt(keeper, client, upstream, model):
    tired = whole({"error": {"message": "tired"}}, status=503)
    upstream.script(model, tired, reply(stream({"content": "Hi"})))
    row = keeper.exchange(streamed(client, model, service_tier="auto"))
    assert (row["outcome"], row["error_code"]) == ("ok", "")
    ((name, tried, code, message),) = row["attempts"]
    assert (name, tried, code) == ("openrouter", model, "upstream_overloaded")
    assert "tired" in message
    assert all(count == 1 for _, _, count in row["notices"])
    assert b"tired" not in keeper.transcript(row)["raw"]


def test_a_fallback_is_recorded_with_the_route_that_answered(keeper, client, upstream):
    name = f"first-{letters()}"
    upstream.script(name, whole({"error": {"message": "broken"}}, status=500))
    upstream.script("test/spare", says("from the spare one"))
    row = keeper.exchange(streamed(client, name))
    assert (row["outcome"], row["route"], row["upstream"]) == ("ok", "spare", "openrouter")
    assert (row["model"], row["upstream_model"]) == (name, "test/spare")
    assert [attempt[:3] for attempt in row["attempts"]] == [["quick", name, "upstream_error"]]


def test_token_counts_too_large_for_the_column_are_bounded(keeper, client, upstream, model):
    usage = {"prompt_tokens": 10**12, "completion_tokens": 7}
    end = data({"id": "c", "choices": [], "usage": usage}) + b"data: [DONE]\n\n"
    upstream.script(model, reply(chunk({"content": "a"}), chunk({}, "stop"), end))
    assert keeper.exchange(streamed(client, model))["input_tokens"] == 2**31 - 1


def test_transcripts_of_one_kind_of_failure_are_limited_per_hour(keeper, client, upstream, model):
    upstream.script(model, whole({"error": {"message": "no"}}, status=500))
    answers = [streamed(client, model) for _ in range(5)]
    rows = [keeper.exchange(answer) for answer in answers]
    assert [keeper.transcript(row) is not None for row in rows] == [True] * 3 + [False] * 2
    assert len({row["group_id"] for row in rows}) == 1
    (group,) = keeper.rows("SELECT * FROM proxy_failuregroup WHERE id = ?", rows[0]["group_id"])
    assert (group["count"], group["state"]) == (5, "open")
    assert group["family"] == model.removesuffix("-1")
    assert (group["error_code"], group["phase"]) == ("upstream_error", "answer")
    assert group["first_seen"] == rows[0]["created_at"]
    assert group["last_seen"] == rows[-1]["created_at"]
    hours = keeper.rows("SELECT * FROM proxy_failurehour WHERE group_id = ?", group["id"])
    assert sum(hour["count"] for hour in hours) == 5


def test_a_resolved_group_that_comes_back_is_regressed(keeper, client, upstream, model):
    upstream.script(model, whole({"error": {"message": "no"}}, status=500))
    group = keeper.exchange(streamed(client, model))["group_id"]

    def set_state(state):
        code = f"from proxy.models import *\nFailureGroup.objects.filter(pk={group}).update(state={state!r})"
        assert keeper.manage("shell", "--no-imports", "-c", code).returncode == 0

    def state():
        return keeper.rows("SELECT state FROM proxy_failuregroup WHERE id = ?", group)[0]["state"]

    for decided, then in (("resolved", "regressed"), ("ignored", "ignored")):
        set_state(decided)
        assert keeper.exchange(streamed(client, model))["group_id"] == group
        assert state() == then


def test_a_transcript_has_all_parts_and_the_time_of_each_read(keeper, client, upstream, model):
    hold = Hold()
    parts = [chunk({"content": "one"}), hold, chunk({"tool_calls": [CALL]}), END]
    upstream.script(model, reply(*parts))
    body, sent = ask(model, stream=True, tools=TOOLS), b""
    with client.stream("POST", "/v1/messages", json=body) as response:
        for part in response.iter_raw():
            sent += part
            if b"one" in sent and not hold.event.is_set():
                time.sleep(0.3)  # the time that must be between the two reads
                hold.event.set()
    row = keeper.exchange(response)
    kept = keeper.transcript(row)
    assert json.loads(kept["request"]) == body
    assert kept["headers"]["user-agent"] == "claude-cli/2.0"
    assert "x-api-key" not in kept["headers"]
    assert kept["raw"] == b"".join(part for part in parts if isinstance(part, bytes))
    assert kept["sent"] == sent
    assert [name for name, _ in kept["events"]] == [
        "MessageStart",
        "TextDelta",
        "ToolCallStart",
        "ToolCallDelta",
        "ToolCallEnd",
        "MessageEnd",
    ]
    assert kept["tools"] == [{"name": "get_tide", "schema": TOOLS[0]["input_schema"]}]
    assert (kept["left_out"], kept["redactions"]) == ({}, 0)
    (first, second, *_) = kept["arrivals"]
    assert (first[0], second[0]) == (0, len(parts[0]))
    assert second[1] - first[1] >= 299


def test_a_route_may_keep_no_transcripts_of_calls(keeper, client, upstream):
    name = f"unsampled-{letters()}"
    upstream.script(name, reply(stream({"tool_calls": [CALL]}, finish="tool_calls")))
    row = keeper.exchange(streamed(client, name, tools=TOOLS))
    assert (row["tool_calls"], keeper.transcript(row)) == (1, None)


def test_a_key_may_opt_out_of_transcripts_even_of_failures(keeper, upstream, model):
    upstream.script(model, whole({"error": {"message": "no"}}, status=500))
    with keeper.client(**{"x-api-key": "sk-athena-private-key"}) as private:
        row = keeper.exchange(streamed(private, model))
    assert row["outcome"] == "upstream_error"
    assert keeper.transcript(row) is None


def test_by_default_successes_leave_no_transcript_and_failures_do(gateway, upstream):
    """Of successful answers, only 1 % of those with tool calls are kept. This one has none."""
    with gateway.client() as client:
        name = f"test/{letters()}"
        upstream.script(name, says("Hi"))
        assert gateway.transcript(gateway.exchange(streamed(client, name))) is None
        upstream.script(name, whole({"error": {"message": "no"}}, status=500))
        assert gateway.transcript(gateway.exchange(streamed(client, name))) is not None


def test_capture_can_be_switched_off_entirely(gateway, upstream, model):
    gateway.edit("s = GatewaySettings.objects.get(); s.capture_content = False; s.save()")
    try:
        upstream.script(model, whole({"error": {"message": "no"}}, status=500))
        with gateway.client() as client:
            row = gateway.exchange(streamed(client, model))
        assert row["outcome"] == "upstream_error"
        assert gateway.transcript(row) is None
    finally:
        gateway.edit("s = GatewaySettings.objects.get(); s.capture_content = True; s.save()")


def test_long_parts_keep_their_head_and_tail(keeper, client, upstream, model):
    texts = [f"{number:06} {'x' * 90} " for number in range(3000)]
    body = b"".join(chunk({"content": text}) for text in texts) + END
    upstream.script(model, reply(*[body[at : at + 1000] for at in range(0, len(body), 1000)]))
    response = streamed(client, model, text="y " * 50_000)
    row = keeper.exchange(response)
    kept = keeper.transcript(row)
    assert row["bytes_upstream"] == len(body)
    for name, full in (
        ("raw", body),
        ("sent", response.content),
        ("request", response.request.content),
    ):
        value = kept[name].encode() if name == "request" else kept[name]
        head, left_out = kept["left_out"][name]
        assert len(value) <= 65536
        assert full.startswith(value[:head])
        assert full.endswith(value[head:])
        assert len(value) >= 65536 - 1100
        assert left_out == len(full) - 65536
    text = "".join(fields["text"] for name, fields in kept["events"] if name == "TextDelta")
    assert "000000 " in text
    assert "002999 " in text
    assert len(json.dumps(kept["events"])) < 70_000
    assert kept["events"][-1][0] == "MessageEnd"
    # The network decides where a read begins, but offsets are in order and within the bytes.
    offsets = [offset for offset, _ in kept["arrivals"]]
    assert offsets[0] == 0
    assert offsets == sorted(offsets)
    assert offsets[-1] <= len(kept["raw"])


CANARIES = ("sk-proj-canaryCanaryCanary0123", "ghp_canary0123456789canary0123456789canary")


def test_no_secret_is_in_any_row_log_or_file(upstream, tmp_path):
    gateway = Gateway(
        tmp_path, OPENROUTER_API_KEY=UPSTREAM_KEY, OPENROUTER_BASE_URL=upstream.url
    ).start()
    gateway.edit(
        "s = GatewaySettings.objects.get(); s.sample_calls = s.sample_others = 1;"
        " s.transcript_bytes = 16384; s.save()"
    )
    secrets = (*CANARIES, UPSTREAM_KEY, KEY)
    name = f"test/{letters()}"
    count = 0
    with gateway.client(**{"user-agent": f"agent {CANARIES[0]}"}) as client:
        for secret in secrets:
            tool = {"name": "f", "input_schema": {"type": "object", "description": secret}}
            body = ask(name, text=f"my key is {secret}", system=secret, tools=[tool], stream=True)
            half = len(secret) // 2
            call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"k":"'}}
            more = [
                {"tool_calls": [{"index": 0, "function": {"arguments": part}}]}
                for part in (secret[:half], secret[half:], '"}')
            ]
            long = [{"content": f"{number} {'z' * 80}"} for number in range(400)]
            split = [{"content": part} for part in (f"it is {secret[:half]}", f"{secret[half:]} !")]
            thought = [{"reasoning_content": part} for part in (secret[:5], secret[5:])]
            for answer in (
                reply(stream({"content": f"your key is {secret}"})),
                reply(stream(*split)),
                reply(*map(chunk, split), END),
                reply(stream(*thought, *split)),
                reply(stream({"tool_calls": [call]}, *more, finish="tool_calls")),
                reply(stream(*split, *long)),
                reply(stream(*long, *split)),
                reply(stream(*long[:100], *split, *long)),
                reply(stream({"content": BROKEN.replace("Bergen", secret)})),
                whole({"error": {"message": f"bad key {secret}"}}, status=401),
                whole({"error": {"message": f"bad key {secret}"}}, status=500),
                whole(f"<html>{secret}</html>".encode(), status=500),
                reply(*map(chunk, split), data({"error": {"message": f"no {secret}"}})),
                reply(stream({"content": "x"})[:-20] + f": {secret}\n\n".encode()),
            ):
                upstream.script(name, answer)
                client.post("/v1/messages", json=body)
                client.post("/v1/messages", json=body | {"stream": False})
                count += 2
            for odd in (secret, f"{secret}/x", f"x/{secret}"):
                upstream.script(odd, whole({"error": {"message": "who?"}}, status=404))
                client.post("/v1/messages", json=ask(odd, stream=True))
                client.post("/v1/messages", json=ask(odd, metadata=secret, messages=secret))
                count += 2
    gateway.stop()
    assert len(gateway.rows("SELECT id FROM proxy_exchange")) == count
    assert gateway.rows("SELECT count(*) AS n FROM proxy_transcript")[0]["n"] > 60
    stored = dump(gateway.environment["DATABASE_URL"])
    # Also in the joined text of an answer, as the pages show it.
    answers = [(content.raw, content.sent) for content in gateway.transcripts()]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    files = [path for path in files if path.name not in ("client_key", "secret_key")]
    for secret in secrets:
        for path in files:
            assert secret.encode() not in path.read_bytes(), path.name
        assert secret not in stored
        for answer in (part for row in answers for part in row):
            chunks = [json.loads(line[6:]) for line in answer.split(b"\n") if _is_event(line)]
            assert secret not in "".join(_strings(chunks))


def _is_event(line):
    try:
        return line.startswith(b"data: ") and isinstance(json.loads(line[6:]), dict)
    except ValueError:
        return False


def _strings(value):
    """The texts of deltas, without names and ids."""
    if isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, str):
                if name in (
                    "text",
                    "content",
                    "thinking",
                    "partial_json",
                    "arguments",
                    "reasoning",
                ):
                    yield item
            else:
                yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def test_the_family_that_auto_read_is_recorded(keeper, client, upstream, model):
    upstream.script(model, says(KIMI))
    row = keeper.exchange(streamed(client, model, tools=TOOLS))
    assert (row["format"], row["family_read"], row["rescued_calls"]) == ("auto", "kimi", 1)
    assert ["family_read", "kimi", 1] in row["notices"]
    assert (row["leaked_format"], row["stop_reason"]) == ("", "tool_use")


def test_a_call_of_an_undeclared_tool_leaks_through_auto(keeper, client, upstream, model):
    upstream.script(model, says(KIMI.replace("get_tide", "get_moon")))
    row = keeper.exchange(streamed(client, model, tools=TOOLS))
    assert (row["format"], row["family_read"], row["leaked_format"]) == ("auto", None, "kimi")
    assert row["rescued_calls"] == 0


def test_native_markup_in_a_standard_answer_is_recorded_as_a_leak(keeper, client, upstream):
    model = f"openai/{letters()}"
    upstream.script(model, says(KIMI))
    row = keeper.exchange(streamed(client, model, tools=TOOLS))
    assert (row["outcome"], row["format"], row["leaked_format"]) == ("ok", "standard", "kimi")
    assert ["native_markup_seen", "kimi", 1] in row["notices"]
    kept = keeper.transcript(row)
    original = decode_again(kept["raw"], kept["reading"], kept["tools"])
    assert "ToolCallEnd" not in [type(event).__name__ for event in original.events]
    fixed = decode_again(kept["raw"], kept["reading"] | {"format": "kimi"}, kept["tools"])
    assert fixed.failure is None
    assert "ToolCallEnd" in [type(event).__name__ for event in fixed.events]
    assert b'"tool_use"' in fixed.sent


def test_an_exchange_with_leaked_markup_keeps_its_transcript_by_default(gateway, upstream):
    model = f"openai/{letters()}"
    upstream.script(model, says(KIMI))
    with gateway.client() as client:
        row = gateway.exchange(streamed(client, model, tools=TOOLS))
    assert row["leaked_format"] == "kimi"
    assert gateway.transcript(row) is not None


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_decoding_a_stored_answer_again_gives_the_same_events_and_bytes(
    keeper, client, upstream, format_name, dialect
):
    name = f"vendor/{MODELS.get(format_name, format_name)}-{letters()}"
    if dialect == "anthropic":
        name = f"anthropic-{name}"
    text = "Only text."
    if format_name != "standard":
        text = "See. " + write_call(format_name, "get_tide", {"harbor": "Bergen"})
    if dialect == "openai":
        upstream.script(name, reply(*[chunk({"content": char}) for char in text], END))
    else:
        events = [
            MessageStart("msg_1", "m", Usage(input=9)),
            *map(TextDelta, text),
            MessageEnd(StopReason.END_TURN, usage=Usage(input=9, output=3)),
        ]
        upstream.script(name, reply(anthropic_stream(events)))
    response = streamed(client, name, tools=TOOLS)
    row = keeper.exchange(response)
    kept = keeper.transcript(row)
    again = decode_again(kept["raw"], kept["reading"], kept["tools"])
    assert again.events == [load_event(fields) for fields in kept["events"]]
    assert row["tool_calls"] == (0 if format_name == "standard" else 1)
    # The original was encoded read by read, with more deltas but the same content.
    first, second = view(response.content, "anthropic"), view(again.sent, "anthropic")
    first.names = second.names = []
    assert first == second
    if dialect == "anthropic":
        assert again.sent == response.content


def test_decoding_a_stored_custom_tool_call_again_gives_a_custom_tool_call(keeper, upstream, model):
    upstream.script(model, reply(structured(json.dumps({"input": PATCH}), [12])))
    request = {"model": model, "messages": [{"role": "user", "content": "x"}], "stream": True}
    with keeper.client() as client:
        response = client.post("/v1/chat/completions", json=request | {"tools": [NESTED]})
    kept = keeper.transcript(keeper.exchange(response))
    again = decode_again(kept["raw"], kept["reading"], kept["tools"])
    [call] = openai_reader.read(again.sent).calls
    assert [call] == openai_reader.read(response.content).calls
    assert (call["type"], call["text"]) == ("custom", PATCH)


def test_text_that_databases_refuse_is_stored_with_replacements(keeper, client, upstream, model):
    parts = [b'data: {"choices":[{"delta":{"content":"a\\u0000b\\ud83d"}}]}\n\n', END]
    upstream.script(model, reply(*parts))
    row = keeper.exchange(streamed(client, model, text="nul \0 here"))
    kept = keeper.transcript(row)
    assert "\0" not in json.dumps(kept["events"]) + kept["request"]
    assert kept["raw"] == b"".join(parts)


def post_body(client, body):
    response = client.post(
        "/v1/messages", content=body, headers={"content-type": "application/json"}
    )
    assert response.status_code == 200
    return response


def test_line_feeds_in_a_request_do_not_split_a_journal_line(keeper, client, upstream, model):
    upstream.script(model, says("hi"))
    pretty = json.dumps(ask(model, stream=True, tools=TOOLS), indent=1)
    row = keeper.exchange(post_body(client, pretty))
    assert keeper.transcript(row)["tools"][0]["schema"] == TOOLS[0]["input_schema"]


@pytest.mark.parametrize("fields", [{}, {"request_id": "req_forged", "model": "forged"}])
def test_a_tool_schema_cannot_forge_a_journal_line(keeper, client, upstream, model, fields):
    upstream.script(model, says("hi"))
    exchange = {"created_at": "2026-01-01T00:00:00+00:00", **fields}
    entry = {"type": "ended", "exchange": exchange, "transcript": None, "fingerprint": None}
    tool = {"name": "t", "input_schema": {"type": "object", "x": "@"}}
    asked = json.dumps(ask(model, stream=True, tools=[tool]))
    forged = asked.replace('"@"', f"\n{json.dumps(entry)}\n")
    for body in (forged, asked):
        assert keeper.exchange(post_body(client, body))["model"] == model
    assert keeper.rows("SELECT id FROM proxy_exchange WHERE request_id = 'req_forged'") == []


@pytest.mark.parametrize("number", ["1e-20000", "1e-5", "0." + "0" * 20000 + "1", "9" * 400])
def test_a_number_that_databases_refuse_does_not_cost_the_row(
    keeper, client, upstream, model, number
):
    upstream.script(model, says("hi"))
    tool = {"name": "t", "input_schema": {"type": "object", "minimum": "@"}}
    asked = json.dumps(ask(model, stream=True, tools=[tool])).replace('"@"', number)
    row = keeper.exchange(post_body(client, asked))
    assert keeper.transcript(row) is not None
