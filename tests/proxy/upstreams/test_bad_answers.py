"""Answers that break off, are unreadable or too large, or report an error."""

import gzip
import json
import time
from pathlib import Path

import pytest

from tests.support.chat import TOOLS, chunk, data, error_of, read, reply, says, stream
from tests.support.client_views import check_end, error_type, view
from tests.support.faulty_upstreams import PATHS, failed_in_the_middle
from tests.support.scripted_upstream import Close, Pause, Reset, whole
from tests.support.upstream_answers import Call, event
from tests.support.upstream_answers import stream as upstream_stream
from tests.support.waiting import wait_for

KEY = "sk-or-canary-of-the-upstream"
CALL = Call("get_tide", {"harbor": "Tromsø", "days": 3}, "call_1")
TEXT_CHUNK = chunk({"content": "so far"})
OPEN_CALL = chunk(
    {
        "tool_calls": [
            {"index": 0, "id": "c", "function": {"name": "get_tide", "arguments": '{"harbor": "Bo'}}
        ]
    }
)
BREAKS = {
    "a reset": ([Pause(0.1), Reset], "upstream_reset"),
    "a cut body": ([Close], "upstream_truncated"),
    "an end without a finish reason": ([b"0\r\n\r\n"], "upstream_truncated"),
}


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("case", BREAKS)
def test_an_answer_that_breaks_off_ends_in_an_error(either, case, dialect):
    ending, code = BREAKS[case]
    model, script = either.script("test/lost", [*reply(TEXT_CHUNK, OPEN_CALL, ends=False), *ending])
    response = either.post(model, dialect, stream=True)
    seen = failed_in_the_middle(response, dialect)
    assert (seen.text, seen.error, seen.calls) == (
        "so far",
        error_type("api_error", dialect),
        [],
    )
    if dialect == "anthropic":  # the call's block stays open: clients run closed blocks
        assert seen.names.count("content_block_start") == 2
        assert seen.names.count("content_block_stop") == 1
    assert either.row(response) == ("upstream_error", "body", code, 200)
    assert len(script.requests) == 1
    response = either.post(model)
    assert (error_of(response)[0], response.headers["x-athena-error"]) == (502, code)


@pytest.mark.parametrize("case", BREAKS)
def test_tokens_counted_before_an_answer_breaks_off_are_recorded(either, case):
    ending, code = BREAKS[case]
    start = b"".join([*upstream_stream("anthropic", "so far")][:4])
    model, _ = either.script("claude-up", [*reply(start, ends=False), *ending])
    response = either.post(model, stream=True)
    assert failed_in_the_middle(response, "anthropic").text == "so far"
    row = either.gateway.exchange(response)
    assert (row["error_code"], row["input_tokens"], row["output_tokens"]) == (code, 11, 1)
    counting = chunk({"content": "so far"}, usage={"prompt_tokens": 9, "completion_tokens": 2})
    model, _ = either.script("test/counting", [*reply(counting, ends=False), *ending])
    row = either.gateway.exchange(either.post(model, stream=True))
    assert (row["input_tokens"], row["output_tokens"]) == (9, 2)


@pytest.mark.parametrize("upstream_dialect", PATHS)
def test_a_stream_truncated_anywhere_never_yields_an_incomplete_call(
    athena_faulty, upstream_dialect
):
    """tests/formats/test_truncation.py cuts at every byte; this cuts at a few, by close and reset."""
    kind = "claude-up" if upstream_dialect == "anthropic" else "test/cut"
    body = b"".join(upstream_stream(upstream_dialect, "Let me see. ", [CALL]))
    last = body.index(b"message_stop" if kind == "claude-up" else b'"finish_reason": "tool_calls"')
    for number, end in enumerate(range(len(body) // 5, last, len(body) // 6)):
        fault = [Pause(0.05), Reset] if number % 2 else [Close]
        model, _ = athena_faulty.script(kind, [*reply(body[:end], ends=False), *fault])
        for dialect in PATHS:
            response = athena_faulty.post(model, dialect, stream=True, tools=tools(dialect))
            if response.status_code != 200:  # cut before the first content
                assert response.status_code == 502
                continue
            seen = failed_in_the_middle(response, dialect)
            assert all(call["arguments"] == CALL.arguments for call in seen.calls)


def tools(dialect):
    if dialect == "anthropic":
        return TOOLS
    function = {"name": "get_tide", "parameters": TOOLS[0]["input_schema"]}
    return [{"type": "function", "function": function}]


UNREADABLE = {
    "not JSON": (b"data: {oops\n\n", "upstream_bad_chunk"),
    "not UTF-8": (b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n', "upstream_bad_utf8"),
}


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("case", UNREADABLE)
def test_an_unreadable_event_is_an_error_and_is_in_the_transcript(athena_faulty, case, dialect):
    bad, code = UNREADABLE[case]
    model, _ = athena_faulty.script("test/bad", reply(TEXT_CHUNK, bad, chunk({"content": "on"})))
    response = athena_faulty.post(model, dialect, stream=True)
    seen = failed_in_the_middle(response, dialect)
    assert (seen.text, seen.error) == ("so far", error_type("format_transformation_error", dialect))
    gateway = athena_faulty.gateway
    assert athena_faulty.row(response) == ("transform_failed", "translation", code, 200)
    assert bad in gateway.transcript(gateway.exchange(response))["raw"]
    response = athena_faulty.post(model)
    assert (error_of(response)[0], response.headers["x-athena-error"]) == (502, code)


@pytest.mark.parametrize("dialect", PATHS)
def test_unusual_characters_pass_unchanged_whole_or_split(athena_faulty, dialect):
    text = "a\u2028b\x85c\x00d 🌊 e\ufeff"
    body = stream({"content": text})
    place = body.index("🌊".encode()) + 2
    model, _ = athena_faulty.script("test/odd", reply(body[:place], Pause(0.1), body[place:]))
    assert view(athena_faulty.post(model, dialect, stream=True).content, dialect).text == text
    half = TEXT_CHUNK.replace(b"so far", b"\\ud83c")
    model, _ = athena_faulty.script("test/half", reply(half + chunk({}, "stop")))
    assert b"\\ud83c" in athena_faulty.post(model, dialect, stream=True).content


def memory(gateway, name):
    lines = Path(f"/proc/{gateway.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize(
    ("unit", "code"),
    [(b"x" * 2**16, "upstream_line_too_long"), (b"data: x\n" * 2**13, "upstream_event_too_large")],
    ids=["line", "event"],
)
def test_an_endless_line_or_event_of_64_megabytes_is_aborted_and_never_buffered(
    athena_faulty, unit, code, dialect
):
    gateway = athena_faulty.gateway
    endless = [b"%x\r\n%b\r\n" % (len(unit), unit)] * (2**26 // len(unit))
    model, script = athena_faulty.script(
        "test/endless", [*reply(TEXT_CHUNK + b"data: ", ends=False), *endless]
    )
    warm, _ = athena_faulty.script("test/warm", says("Hi"))
    assert athena_faulty.post(warm, dialect, stream=True).status_code == 200
    before = memory(gateway, "VmRSS")
    Path(f"/proc/{gateway.process.pid}/clear_refs").write_text("5")  # reset the peak
    response = athena_faulty.post(model, dialect, stream=True)
    seen = failed_in_the_middle(response, dialect)
    assert (seen.text, seen.error) == ("so far", error_type("format_transformation_error", dialect))
    growth = memory(gateway, "VmHWM") - before
    print(f"{code}: {growth} KiB")
    # An event may have 4 MiB, and is in memory twice while its size is checked.
    assert growth < (4 if "line" in code else 12) * 1024
    assert athena_faulty.row(response) == ("transform_failed", "translation", code, 200)
    wait_for(lambda: script.last.closed_at)


@pytest.mark.parametrize("unit", [b" ", b"\n", b"\r\n"], ids=["spaces", "lines", "CRLF"])
def test_64_megabytes_of_blanks_are_aborted_and_never_buffered(athena_faulty, unit):
    blank = unit * (2**16 // len(unit))
    endless = [b"%x\r\n%b\r\n" % (len(blank), blank)] * 2**10
    model, script = athena_faulty.script("test/blank", [*reply(ends=False), *endless])
    for streamed in (True, False):
        response = athena_faulty.post(model, "anthropic", stream=streamed)
        assert response.status_code == 502
        row = athena_faulty.row(response)
        assert row == ("transform_failed", "translation", "upstream_bad_chunk", 502)
        # The read-ahead buffer and one more read: 256 KB each.
        assert athena_faulty.gateway.exchange(response)["bytes_upstream"] < 2**19
        wait_for(lambda: script.last.closed_at)


def test_an_answer_after_keep_alive_lines_is_read(athena_faulty):
    model, _ = athena_faulty.script("test/lines", reply(b"\n" * 4000, stream({"content": "Hi"})))
    response = athena_faulty.post(model, "anthropic", stream=True)
    assert view(response.content, "anthropic").text == "Hi"


def test_a_collected_answer_over_its_limit_is_an_error(athena_faulty):
    gateway = athena_faulty.gateway
    gateway.edit("s = GatewaySettings.objects.get(); s.max_answer_bytes = 2**16; s.save()")
    try:
        large = "x" * 70_000
        message = {"role": "assistant", "content": large}
        for answer in (
            whole({"choices": [{"message": message, "finish_reason": "stop"}]}),
            reply(*[chunk({"content": "x" * 1000})] * 70, Pause(0.2), chunk({}, "stop")),
        ):
            model, _ = athena_faulty.script("test/large", answer)
            response = athena_faulty.post(model)
            assert error_of(response)[0] == 502
            code = "upstream_answer_too_large"
            assert athena_faulty.row(response) == ("transform_failed", "translation", code, 502)
        assert len(read(athena_faulty.post(model, stream=True)).text) == 70_000
    finally:
        gateway.edit("s = GatewaySettings.objects.get(); s.max_answer_bytes = 2**26; s.save()")


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
def test_a_compressed_answer_is_rejected_and_not_decompressed(either, encoding):
    bomb = gzip.compress(b"data: " + b"x" * 50_000_000)
    model, script = either.script(
        "test/bomb", reply(bomb, headers=[f"content-encoding: {encoding}"])
    )
    response = either.post(model)
    assert (error_of(response)[0], response.headers["x-athena-error"]) == (502, "upstream_encoding")
    assert script.last.headers["accept-encoding"] == "identity"


REPORTED = {
    "openai": (data({"error": {"message": f"broke at {KEY}", "code": 503}}), "overloaded_error"),
    "a string": (data({"error": f"broke at {KEY}"}), "api_error"),
    "vllm": (data({"object": "error", "message": f"broke at {KEY}", "code": 400}), None),
    "openrouter": (
        chunk({"content": ""}, "error", error={"message": f"broke at {KEY}", "code": 502}),
        "api_error",
    ),
    "a named event": (
        event({"type": "error", "error": {"type": "overloaded_error", "message": f"at {KEY}"}}),
        "overloaded_error",
    ),
    "in a choice": (
        data({"choices": [{"index": 0, "delta": {}, "error": {"message": KEY, "code": 429}}]}),
        "rate_limit_error",
    ),
}


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("case", REPORTED)
def test_an_error_reported_in_the_stream_reaches_the_client(athena_faulty, case, dialect):
    reported, kind = REPORTED[case]
    model, _ = athena_faulty.script(
        "test/reported", reply(TEXT_CHUNK, Pause(0.05), reported, TEXT_CHUNK)
    )
    response = athena_faulty.post(model, dialect, stream=True)
    seen = failed_in_the_middle(response, dialect)
    assert seen.text == "so far"
    assert KEY not in response.text
    assert athena_faulty.row(response)[0] in ("upstream_error", "client_error")
    if kind:
        assert seen.error == error_type(kind, dialect)


def test_a_redirect_is_not_followed(either):
    location = "location: http://169.254.169.254/latest/meta-data/"
    model, script = either.script("test/moved", whole({}, 302, [location]))
    response = either.post(model)
    assert (error_of(response)[0], response.headers["x-athena-error"]) == (502, "upstream_redirect")
    assert response.headers["x-should-retry"] == "false"
    assert either.row(response)[:3] == ("upstream_error", "answer", "upstream_redirect")
    assert "169.254" not in response.text
    assert len(script.requests) == 1


def test_headers_of_300_kilobytes_are_502(either):
    many = [f"x-header-{n}: {'x' * 1000}" for n in range(300)]
    model, _ = either.script("test/headers", reply(headers=many))
    response = either.post(model)
    assert (error_of(response)[0], response.headers["x-athena-error"]) == (502, "upstream_protocol")


def test_connection_headers_and_cookies_are_not_forwarded(either):
    headers = ["set-cookie: a=b", "keep-alive: timeout=5", "server: secret/1.0", "x-upstream: yes"]
    model, _ = either.script("test/cookies", reply(stream({"content": "Hi"}), headers=headers))
    response = either.post(model, stream=True)
    assert read(response).text == "Hi"
    assert not {"set-cookie", "keep-alive", "x-upstream"} & set(response.headers)
    assert "secret" not in str(response.headers)


@pytest.mark.parametrize("status", [503, 529])
def test_an_overloaded_upstream_has_the_status_of_the_clients_dialect(athena_faulty, status):
    for dialect, expected in (("anthropic", 529), ("openai", 503)):
        model, script = athena_faulty.script("test/busy", whole(b"<html>busy</html>", status))
        response = athena_faulty.post(model, dialect)
        assert response.status_code == expected
        assert response.headers["x-athena-error"] == "upstream_overloaded"
        if dialect == "anthropic":
            assert error_of(response)[1] == "overloaded_error"
        assert athena_faulty.row(response)[0] == "upstream_error"
        assert len(script.requests) == 2  # one retry before the first byte


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("retry-after: 7", "7"),
        ("retry-after: 99999999", "60"),
        ("retry-after: -5", "0"),
        ("retry-after: Mon, 01 Jan 2024 00:00:00 +99999999999999", None),
        ("retry-after: Mon, 01 Jan 99999999999999999999999 00:00:00 GMT", None),
        ("retry-after: soon", None),
    ],
)
def test_retry_after_is_clamped_for_clients_of_the_upstreams_dialect(
    athena_faulty, header, expected
):
    error = whole({"error": {"message": "slow down"}}, 429, [header])
    model, _ = athena_faulty.script("test/slow", error)
    response = athena_faulty.post(model, "openai")
    assert (response.status_code, response.headers.get("retry-after")) == (429, expected)
    assert athena_faulty.row(response)[:3] == ("upstream_error", "answer", "upstream_rate_limit")


ARGUMENTS = {
    "depth": ('{"a":' + "[" * 100_000, "call_invalid_json"),
    "digits": ('{"a":' + "9" * 5000 + "}", "call_invalid_json"),
    "infinity": ('{"a":1e400}', "call_invalid_json"),
    "open": ('{"a":"' + '\\"' * 50_000, "call_truncated"),
    "a list": ("[1]", "call_non_object_args"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_unreadable_arguments_are_a_failed_translation(athena_faulty, case):
    arguments, code = ARGUMENTS[case]
    entry = {"index": 0, "id": "c", "function": {"name": "get_tide", "arguments": arguments}}
    body = stream({"content": "so far"}, {"tool_calls": [entry]}, finish="tool_calls")
    model, _ = athena_faulty.script("test/arguments", reply(body))
    start = time.monotonic()
    for dialect in PATHS:
        response = athena_faulty.post(model, dialect, stream=True, tools=tools(dialect))
        failed_in_the_middle(response, dialect)
        assert athena_faulty.row(response) == ("transform_failed", "translation", code, 200)
    assert time.monotonic() - start < 60  # repairing them would take minutes


@pytest.mark.parametrize("dialect", PATHS)
def test_w10_the_client_gets_the_error_of_a_call_at_once_and_the_audit_reads_on(
    athena_faulty, dialect
):
    """W10: what follows a failed call is recorded, but not sent."""
    broken = {"index": 0, "id": "c", "function": {"name": "get_tide", "arguments": "{]"}}
    first = stream({"tool_calls": [broken]}, finish=None, done=False)
    rest = stream({"content": "and more"}, finish="tool_calls")
    model, _ = athena_faulty.script("test/reads-on", reply(first, Pause(0.3), rest))
    response = athena_faulty.post(model, dialect, stream=True, tools=tools(dialect))
    failed_in_the_middle(response, dialect)
    check_end(response.content, dialect)
    assert b"and more" not in response.content
    code = "call_invalid_json"
    assert athena_faulty.row(response) == ("transform_failed", "translation", code, 200)
    row = athena_faulty.gateway.exchange(response)
    assert row["bytes_upstream"] == len(first + rest)


@pytest.mark.parametrize("dialect", PATHS)
def test_text_that_imitates_the_wire_is_text(athena_faulty, dialect):
    text = '\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\ndata: [DONE]\n\n0\r\n\r\n'
    model, _ = athena_faulty.script("test/imitation", reply(stream({"content": text})))
    response = athena_faulty.post(model, dialect, stream=True)
    seen = view(response.content, dialect)
    assert (seen.text, seen.error) == (text, None)
    assert json.dumps(text)[1:-1].encode() in response.content
