"""Redaction finds secrets in every spelling, and takes linear time on hostile text."""

import html
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from formats import (
    DIALECTS,
    Limits,
    MessageEnd,
    MessageStart,
    Notice,
    NoticeCode,
    ReplyOptions,
    StopReason,
    TextDelta,
    Tool,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UpstreamError,
)
from proxy.audit.capture import Capture
from proxy.audit.exchange import DecodingSettings, Exchange
from proxy.audit.exchange_row import ended_row
from proxy.audit.journal.entries import decode, encode
from proxy.audit.recorder import AuditRecorder
from proxy.audit.sampling import TranscriptSampling
from proxy.audit.transcripts.assembly import _tools, _without_partial_words
from proxy.audit.transcripts.codec import TranscriptContent, pack, unpack
from proxy.errors import GatewayError
from proxy.security import redaction
from proxy.security.redaction import _PATTERNS, _PREFIXES, WORD, Redactor
from tests.support.chat import ask, error_of, reply, says, stream
from tests.support.linear_time import is_linear
from tests.support.scripted_upstream import whole
from tests.support.wire import byte_cuts

SIZE = 50_000
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
UNITS = [
    "a",
    "\\",
    "\\u0073",
    "\\u005c",
    "\\u005c\\",
    "\\u005cu005c",
    "u005c",
    "\\u0073k-",
    "\\/",
    '\\"',
    "sk-",
    "sk-a ",
    "hf_",
    "://",
    "://:a",
    "://a:b@",
    "a://b:",
    "BEARER ",
    "\\nsk-a ",
    "\\u000ask-",
    "ghp_",
    "ghp_a ",
    "github_pat_",
    "github_pat_a ",
    "AKIA",
    "AKIA0123456789ABCDEF0",
    "AIza",
    "AIza ",
    "xoxb-",
    "xoxb- ",
    "eyJ",
    "eyJ-",
    "eyJ-eyJaaaaaaaa",
    "eyJ-sk-",
    "eyJ-ghp_-AIza-xoxb-",
    "eyJaaaaaaaa.",
    "eyJaaaaaaaa.bbbbbbbb ",
    "eyJaaaaaaaa.eyJaaaaaaaa.c ",
    "-----",
    "-----BEGIN ",
    "-----BEGIN A",
    "-----BEGIN PRIVATE KEY",
    "-----BEGIN A PRIVATE KEY-----",
    "-----END ",
    "-----END PRIVATE KEY",
    "PRIVATE KEY ",
    "earer ",
    "Bearer ",
    "Bearer a",
    "Bearer eyJ-",
    "Bearer\t",
    "Basic ",
    "Basic a",
    "Basic aA",
    "basic\\t",
    "api-key",
    "api-key: ",
    "api-key: a",
    "api-key\\\\",
    "api-key:\t",
    "\\ud83d",
    "\\u00e4",
    "-----BEGIN PRIVATE KEY----- -----END ",
]
OPENINGS = ["sk- ", "eyJaaaaaaaa."]


@pytest.mark.parametrize("unit", UNITS)
def test_redaction_of_hostile_text_takes_linear_time(unit):
    for opening in OPENINGS:

        def redact(size, opening=opening):
            Redactor(["known-" * 4, "könown-" * 4]).redact_text(
                opening + unit * (size // len(unit))
            )

        assert is_linear(redact, SIZE), opening


def test_a_long_text_is_cut_before_it_is_searched(monkeypatch):
    searched = []
    monkeypatch.setattr(
        Redactor, "redact_text", lambda self, text: searched.append(len(text)) or text
    )
    assert Redactor().redact_start("eyJ-" * SIZE, 200) == "eyJ-" * 50
    assert max(searched) < 2000


@pytest.mark.parametrize("secret", ["sk-or-v1-0123456789abcdef0123", JWT, "the-clients-own-key"])
@pytest.mark.parametrize("before", ["x ", "sk-or-v1-0123456789abcdef0123 "])
def test_no_cut_leaves_half_a_secret(secret, before):
    """Also after other secrets, which become shorter when they are redacted."""
    for size in range(0, 3000, 7):
        text = before * (size // len(before)) + " " * (size % 30) + secret + " and more" * 500
        brief = Redactor(["the-clients-own-key"]).redact_start(text, 200)
        assert len(brief) <= 200
        assert not any(begins in brief for begins in ("sk-o", "eyJ", "the-c"))


@pytest.mark.parametrize("escape", ["\\n", "\\t", "\\u000a", '\\"', "\\\\"])
@pytest.mark.parametrize(
    "secret",
    [
        "sk-or-v1-0123456789abcdef0123",
        "ghs_0123456789abcdefghijklmnopqrstuv",
        "github_pat_0123456789abcdefghijklmnopqrstuv",
        "AKIA0123456789ABCDEF",
        "AIza0123456789abcdefghijklmnopqrstuv",
        "xoxb-0123456789",
        JWT,
    ],
)
def test_a_json_escape_before_a_secret_does_not_hide_it(secret, escape):
    """As in the JSON of a request, where a key stands at the start of a line."""
    text = f'{{"content":"my key:{escape}{secret}"}}'
    redactor = Redactor()
    assert secret not in redactor.redact_text(text)
    assert secret.encode() not in redactor.redact_bytes(text.encode())
    assert redactor.count == 2


def test_the_start_of_a_jwt_does_not_hide_another_secret():
    redactor = Redactor()
    text = "eyJ-abcdefgh-sk-0123456789abcdef0123 and Bearer eyJabcdefghijklmnop"
    assert redactor.redact_text(text) == "eyJ-abcdefgh-[redacted:key] and Bearer [redacted:bearer]"
    assert redactor.count == 2
    plain = "eyJ-abcdefgh-eyJ-abcdefgh.short"
    assert Redactor().redact_text(plain) == plain
    assert Redactor().redact_text(f"x-{JWT}") == "x-[redacted:jwt]"


def test_partial_words_at_a_cut_are_removed_in_linear_time():
    assert _without_partial_words(b"one two-thr", b"ee-four five") == (b"one ", b" five")
    assert _without_partial_words(b"x" * 3200, b"y" * 3200) == (b"x" * 128, b"y" * 128)

    def remove_words(size):
        words = WORD.encode() * (size // len(WORD))
        for _ in range(50):
            _without_partial_words(words + b" ", words)

    assert is_linear(remove_words, SIZE)


def cpu(gateway):
    """CPU seconds that the gateway has used."""
    assert gateway.process is not None
    fields = Path(f"/proc/{gateway.process.pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def test_hostile_names_take_little_time(gateway, client, upstream, model):
    upstream.script(model, says("Hi"))
    before = cpu(gateway)
    agent = {"user-agent": "eyJ-" * 15_000}
    response = client.post("/v1/messages", json=ask(model), headers=agent)
    assert response.status_code == 200
    assert gateway.exchange(response)["user_agent"] == agent["user-agent"][:200]
    refused = client.post("/v1/messages", json=ask("eyJ-" * 32_000))
    assert error_of(refused) == (
        400,
        "invalid_request_error",
        "model: must have at most 500 characters",
    )
    assert gateway.exchange(refused)["model"] == ("eyJ-" * 32_000)[:200]
    assert cpu(gateway) - before < 2


def test_a_failed_request_with_an_image_takes_little_time(gateway, client, upstream):
    model = (
        "pictures/seen"  # a family of its own: transcripts per hour and kind of failure are limited
    )
    upstream.script(model, *[whole({"error": {"message": "no"}}, status=500)] * 2)
    source = {"type": "base64", "media_type": "image/png", "data": WORD[:52] * 18_000}
    body = ask(model)
    body["messages"][0]["content"] = [{"type": "image", "source": source}]
    before = cpu(gateway)
    response = client.post("/v1/messages", json=body)
    assert response.status_code >= 500
    assert gateway.transcript(gateway.exchange(response)) is not None
    assert cpu(gateway) - before < 1


HOSTILE = "a\0b\ud800c\udc00d"


def texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def is_storable(value):
    return all("\0" not in text and text.encode() for text in texts(value) if text)


def test_any_text_from_clients_and_upstreams_can_be_stored(monkeypatch):
    monkeypatch.setattr(TranscriptSampling, "keeps", lambda *_: True)
    # pytest cannot pass unpaired surrogates in log records from one process to another.
    monkeypatch.setattr(Exchange, "log", lambda *_: None)
    exchange = Exchange("openai")
    exchange.request.snapshot = SimpleNamespace(version=1)
    exchange.request.model = exchange.answer.served_by = HOSTILE
    exchange.request.headers = {
        "user-agent": HOSTILE,
        "x-claude-code-session-id": HOSTILE,
        HOSTILE: "x",
    }
    kind = SimpleNamespace(format="standard", reason=HOSTILE)
    upstream = SimpleNamespace(name=HOSTILE, dialect="openai", secrets=tuple)
    exchange.answer.route = SimpleNamespace(
        pattern=HOSTILE,
        upstream=upstream,
        model=HOSTILE,
        format=kind,
        limits=Limits(),
        strict=False,
        markers=((HOSTILE, HOSTILE),),
        split_thinking=None,
        definition=None,
        sample_calls=1.0,
    )
    exchange.failed_attempts = [(exchange.answer.route, GatewayError.of(UpstreamError(HOSTILE)))]
    exchange.error = GatewayError.of(UpstreamError(HOSTILE))
    exchange.answer.notices[Notice(NoticeCode.FIELD_DROPPED, HOSTILE)] += 1
    schema = b'{"type": "object", "a\\u0000b": ["\\u0000", {"x": "\\u0000"}]}'
    exchange.answer.decoding = DecodingSettings(
        is_whole=False,
        tools=(Tool(HOSTILE, None, schema),),
        max_calls=None,
        taken_ids=frozenset({"a\0b"}),
        aliases={"a\0b": "c\0d"},
    )
    exchange.capture = Capture(b'{"model": "\x00"}\xff', 2**16)
    raw = b'data: {"choices": [{"delta": {"content": "a\\u0000"}}]}\n\n'
    call = ToolCallStart(HOSTILE, HOSTILE)
    exchange.add_read(raw, [MessageStart(HOSTILE, HOSTILE), call, ToolCallDelta(HOSTILE)], at=0.0)
    exchange.add_sent(raw)
    audit = AuditRecorder()
    audit.record_end(exchange, 502)
    entry, _ = audit._memory[0]
    assert repr(decode(encode(entry)).exchange) == repr(entry.exchange), "plain types only"
    content = unpack(entry.packed)
    assert content.tools[0]["name"] == "a␀b\ufffdc\ufffdd"
    assert content.tools[0]["schema"]["a␀b"] == ["␀", {"x": "␀"}]
    assert content.reading["aliases"] == {"a␀b": "c␀d"}
    assert is_storable(entry.exchange)
    assert is_storable(asdict(content))
    assert not is_storable({"x": ["a\0"]})


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        (b'{"type": "object", "x": "\xc3\xb8"}', {"type": "object", "x": "ø"}),
        (b'{"x": 1e999}', {}),
        (b'{"x": "\\ud800"}', {}),
        (b'{"x": "sk-0123456789abcdef0123"}', {"x": "[redacted:key]"}),
    ],
)
def test_a_tool_schema_is_stored_unless_databases_refuse_it(schema, kept):
    tools = (Tool("first", None, schema), Tool("second", None, b'{"a": [1, -2.5e3]}'))
    stored, left_out = _tools(tools, Redactor(), 2**16)
    content = unpack(pack(TranscriptContent(tools=stored)))
    assert [tool["schema"] for tool in content.tools] == [kept, {"a": [1, -2500.0]}]
    assert left_out == 0


def test_a_tool_with_nul_in_its_name_does_not_cost_the_row(gateway, client, upstream, model):
    upstream.script(model, reply(stream({"content": "Hi"})[:-40] + b"data: {bad\n\n"))
    tools = [{"name": "a\0b", "input_schema": {"type": "object", "description": "\0"}}]
    response = client.post("/v1/messages", json=ask(model, tools=tools))
    row = gateway.exchange(response)
    assert row["error_code"] == "upstream_bad_chunk"
    tools = gateway.transcript(row)["tools"]
    tool = tools[0]
    assert (tool["name"], tool["schema"]["description"]) == ("a␀b", "␀")


SECRETS_IN_TEXTS = ["sk-ant-0123456789abcdefghij", "ghs_" + "a1" * 20, "hidden-known-secret"]


@pytest.mark.parametrize("secret", SECRETS_IN_TEXTS)
@pytest.mark.parametrize("place", ["user-agent", "x-claude-code-session-id", "model", "notice"])
@pytest.mark.parametrize("around", ["{}", "{} and more", "before {}", "\0{}", "ä {}", "{}\n"])
def test_a_secret_in_any_text_of_a_row_is_redacted(secret, place, around):
    exchange = Exchange("anthropic")
    text = around.format(secret)
    exchange.request.headers = {"user-agent": "claude-cli/2.0", place: text}
    exchange.request.model = text if place == "model" else "kimi"
    if place == "notice":
        exchange.answer.notices[Notice(NoticeCode.FIELD_DROPPED, text)] = 1
    exchange.redactor.add_secrets(["hidden-known-secret"])
    row = ended_row(exchange, 200)
    assert secret not in str(row)
    assert "[redacted:" in str(row)


def test_long_texts_of_a_row_are_cut():
    exchange = Exchange("anthropic")
    exchange.request.model = "m" * 300
    exchange.request.headers = {"user-agent": "a" * 300}
    row = ended_row(exchange, 200)
    assert (row["model"], row["user_agent"]) == ("m" * 200, "a" * 200)


def test_a_cached_clean_text_is_searched_for_other_known_secrets():
    assert Redactor().is_clean_text("of mine-and-secret here")
    assert Redactor(["another-secret"]).is_clean_text("of mine-and-secret here")
    assert not Redactor(["mine-and-secret"]).is_clean_text("of mine-and-secret here")


def test_only_short_clean_texts_are_cached(monkeypatch):
    monkeypatch.setattr(redaction, "_cached_clean_texts", set())
    looks = "sk-ant-0123456789abcdefghij"
    assert Redactor().is_clean_text("m" * 1025)
    for _ in range(2):
        assert Redactor().is_clean_text("kimi")
        assert not Redactor().is_clean_text(looks)
        assert not Redactor(["known-secret"]).is_clean_text("a known-secret")
    assert redaction._cached_clean_texts == {"kimi"}
    for number in range(2000):
        assert Redactor().is_clean_text(f"agent/{number}")
    assert len(redaction._cached_clean_texts) <= 500


@pytest.mark.parametrize("secret", ["sk-01234", "of-sk-0123", "plain0secret", "ghp_0123"])
@pytest.mark.parametrize("before", ["", "x", "task-", "ø", "\\u00f8", "-----BEGIN"])
def test_a_known_secret_is_redacted_at_any_place(before, secret):
    redactor = Redactor([secret])
    assert not redactor.is_clean(f"{before}{secret}y".encode())
    assert secret not in redactor.redact_bytes(f"{before}{secret}y".encode()).decode()


BEFORE = {"asic": "b", "-key": "api", "earer": "b"}
"""What must precede a prefix, in small letters."""


def test_no_prefix_hides_another():
    hidden = {
        (mark, other)
        for mark in _PREFIXES
        for other in _PREFIXES
        for size in range(1, len(mark))
        if other.startswith(mark[size:])
        and mark[:size].lower().endswith(BEFORE.get(other.lower(), "")[-size:])
    }
    of_headers = {("-key", "eyJ"), ("-Key", "eyJ"), ("earer", "rk_live_")}
    assert hidden == {("AKIA", "AKIA"), ("AKIA", "AIza"), ("gsk_", "sk_live_"), *of_headers}


PIECES = [
    *_PREFIXES,
    *("-", "-----", "PRIVATE KEY-----", "b", "B", "task-", "gh", "_", " ", "\\n", "\\u00f8", "ø"),
    *("0123456789abcdef", "ABCDEFGHIJKLMNOP", "0123456789ABCDEFabcdef0123456789", "eyJ01234567."),
]


@given(st.lists(st.sampled_from(PIECES), max_size=8), st.sampled_from([1, 7, 16, 2**16]))
def test_any_text_that_looks_like_a_secret_is_searched(pieces, window):
    text = "".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "_WINDOW", window)
        if any(found.lastgroup != "eyj" for found in _PATTERNS.finditer(text.encode())):
            assert not Redactor().is_clean(text.encode())
            assert Redactor().redact_text(text) != text


SECRETS_BY_KIND = {
    "key": "sk-or-v1-0123456789abcdef0123",
    "github": "ghp_0123456789abcdef0123456789abcdef0123",
    "aws": "AKIA0123456789ABCDEF",
    "google": "AIza0123456789abcdef0123456789abcdef012",
    "slack": "xoxb-0123456789-abcdef",
    "token": "gsk_0123456789abcdef0123",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "basic": "dXNlcjpwYXNzd29yZC0xMjM0",
    "header": "abcdef0123456789abcdef",
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
    "bearer": "abcdef0123456789abcdef",
    "known": "the client's own key",
}


BEFORE_HEADERS = {"bearer": "Bearer ", "basic": "Basic ", "header": "x-api-key: "}


TOKENS = ["glpat-", "gsk_", "hf_", "npm_", "rk_live_", "sk_live_", "xai-"]


@pytest.mark.parametrize("kind", SECRETS_BY_KIND)
def test_every_kind_of_secret_is_redacted(kind):
    redactor = Redactor(["the client's own key"])
    before = BEFORE_HEADERS.get(kind, "it is ")
    assert (
        redactor.redact_text(f"{before}{SECRETS_BY_KIND[kind]}, you see")
        == f"{before}[redacted:{kind}], you see"
    )
    assert redactor.count == 1


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("postgres://bob:hunter-2@db/x", "postgres://[redacted:userinfo]@db/x"),
        ("redis://:hunter-2@db", "redis://[redacted:userinfo]@db"),
        ('{"url":"https:\\/\\/a:hunter\\u002d2@b"}', '{"url":"https:\\/\\/[redacted:userinfo]@b"}'),
        ("AUTHORIZATION: BEARER abcdef0123456789", "AUTHORIZATION: BEARER [redacted:bearer]"),
        *((f"{kind}0123456789abcdefghij", "[redacted:token]") for kind in TOKENS),
    ],
)
def test_passwords_in_urls_and_tokens_of_other_services_are_redacted(text, clean):
    assert Redactor().redact_text(text) == clean


@pytest.mark.parametrize(
    "text",
    ["http://a:80/b@c", "git://git@host", "see http://[::1]:80/ or a@b", "a://b: c@d", "hf_a"],
)
def test_addresses_without_a_password_stay_as_they_are(text):
    assert Redactor().redact_text(text) == text


def test_text_without_secrets_is_unchanged():
    redactor = Redactor(["short", ""])
    text = "a task-force, desk-top, sk-8, Bearer of news, eyJ.a.b, short"
    assert (redactor.redact_text(text), redactor.count) == (text, 0)


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_a_secret_split_over_chunks_is_redacted(dialect):
    secret = SECRETS_BY_KIND["key"]
    for at in range(1, len(secret)):
        wire = stream({"content": f"x {secret[:at]}"}, {"content": f"{secret[at:]} y"})
        if dialect == "anthropic":
            deltas = [TextDelta(f"x {secret[:at]}"), TextDelta(f"{secret[at:]} y")]
            events = [MessageStart("m", "m"), *deltas, MessageEnd(StopReason.END_TURN)]
            wire = DIALECTS["anthropic"].encoder(ReplyOptions()).feed(events)
        clean = Redactor().redact_stream(wire, dialect, is_suspect=True)
        assert "x [redacted:key] y" in clean.decode()


def test_bytes_that_are_not_utf8_are_kept():
    for part in byte_cuts(b"\xff\x00 plain \xfe", 2):
        assert b"".join(map(Redactor().redact_bytes, part)) == b"\xff\x00 plain \xfe"


def escaped(text, char="\\u%04x"):
    return "".join(char % ord(c) for c in text)


def in_json(text):
    """As it stands in a string within a string of JSON."""
    return json.dumps(text)[1:-1]


ESCAPES = {
    "all": escaped,
    "the first": lambda text: escaped(text[:2]) + text[2:],
    "every other": lambda text: "".join(escaped(c) if at % 2 else c for at, c in enumerate(text)),
    "upper case": lambda text: escaped(text, "\\u%04X"),
    "JSON in JSON": lambda text: in_json(escaped(text)),
    "JSON in JSON in JSON": lambda text: in_json(in_json(escaped(text))),
    "an escaped backslash": lambda text: escaped(text, "\\u005cu%04x"),
    "two escaped backslashes": lambda text: escaped(text, "\\u005c\\u005Cu%04x"),
    "a backslash that was escaped twice": lambda text: escaped(text, "\\u005cu005cu%04x"),
    "slashes": lambda text: text.replace("/", "\\/"),
}
KNOWN = 'the own/key & "secret" \\1'


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
@pytest.mark.parametrize("kind", [*SECRETS_BY_KIND, "bearer with slashes", "quoted"])
def test_escapes_do_not_hide_a_secret(kind, escape):
    """W6"""
    own = {"bearer with slashes": "abc/def/0123456789/abcdef", "quoted": KNOWN}
    secret = {**SECRETS_BY_KIND, **own}[kind]
    redactor = Redactor(["the client's own key", KNOWN])
    before = BEFORE_HEADERS.get(kind.partition(" ")[0], "é \\n")
    text = f'{{"a": "{before}{escape(secret)}\\n", "b": "é"}}'
    if escape is ESCAPES["slashes"] and kind == "quoted":
        text = f'{{"a": "{in_json(KNOWN)}\\n", "b": "é"}}'
    data = text.encode()
    assert not redactor.is_clean(data)
    clean = redactor.redact_bytes(data).decode()
    assert "[redacted:" in clean
    assert clean.startswith('{"a": "')
    assert clean.endswith(', "b": "é"}')
    assert redactor.redact_text(clean) == clean
    rest = clean.replace("[redacted:", "").replace(before, "")
    assert len(rest) < len('{"a": "known]\\n", "b": "é"}') + 12, clean


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Bearer\tabcdef0123456789", "Bearer\t[redacted:bearer]"),
        ("Bearer   abcdef0123456789", "Bearer   [redacted:bearer]"),
        ('{"a": "Bearer\\tabcdef0123456789"}', '{"a": "Bearer\\t[redacted:bearer]"}'),
        ("Basic\tdXNlcjpwYXNzd29yZA==", "Basic\t[redacted:basic]"),
        ("AUTHORIZATION: BASIC  OnB3MTIzNDU=", "AUTHORIZATION: BASIC  [redacted:basic]"),
        ("x-api-key:\tabcdef0123456789", "x-api-key:\t[redacted:header]"),
        ("api-key:  abcdef0123456789", "api-key:  [redacted:header]"),
        ("X-API-KEY : abcdef0123456789", "X-API-KEY : [redacted:header]"),
        ("/v1?api-key=abcdef0123456789&x", "/v1?api-key=[redacted:header]&x"),
        ('{"X-Api-Key": "abcdef0123456789"}', '{"X-Api-Key": "[redacted:header]"}'),
        (
            '"{\\"x-api-key\\":\\"abcdef0123456789\\"}"',
            '"{\\"x-api-key\\":\\"[redacted:header]\\"}"',
        ),
    ],
)
def test_the_secret_of_a_header_is_redacted_however_the_header_is_printed(text, clean):
    """W6"""
    assert Redactor().redact_text(text) == clean
    assert Redactor().redact_text(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "a basic understanding of JavaScriptCore",
        "basic JavaScriptCore",
        "Basic authentication",
        "x-api-key: process.env.ANTHROPIC_API_KEY",
        "x-api-key: ${ANTHROPIC_API_KEY}",
        "Bearer authentication",
    ],
)
def test_what_only_speaks_of_a_header_stays_as_it_is(text):
    assert Redactor().redact_text(text) == text


WIDE = "pässwört-\N{GRINNING FACE}-of-the-upstream"


@pytest.mark.parametrize("secret", [WIDE, 'k/e+y="of&the" upstream'])
@pytest.mark.parametrize(
    "spell",
    [
        str,
        json.dumps,
        lambda text: json.dumps(json.dumps(text)),
        lambda text: json.dumps(json.dumps(json.dumps(text))),
        lambda text: re.sub(r"\\u(....)", lambda found: f"\\u{found[1].upper()}", json.dumps(text)),
        lambda text: json.dumps({"日本": f"日本 {text} 日本"}),
        lambda text: quote(text),
        lambda text: quote(text, safe="").lower(),
        quote_plus,
        html.escape,
    ],
)
def test_no_usual_spelling_hides_a_known_secret(secret, spell):
    """W6: JSON in ASCII alone, addresses and HTML."""
    text = f"before {spell(secret)} after"
    redactor = Redactor([secret])
    assert not redactor.is_clean(text.encode())
    clean = redactor.redact_text(text)
    assert "[redacted:known]" in clean
    assert clean.startswith("before ")
    assert clean.endswith(" after")
    assert not any(part in clean for part in ("ssw", "upstream"))
    assert not redactor.is_clean_text(text)


@pytest.mark.parametrize(
    "text",
    ["\\u0041b", "C:\\\\users\\u0020x", "\\u003cb\\u003e", "https:\\/\\/x\\/y", "\\", "\\\\\\"],
)
def test_escapes_without_a_secret_stay_as_they_are(text):
    redactor = Redactor(["the client's own key"])
    assert (redactor.redact_text(text), redactor.count) == (text, 0)


@given(st.text('\\u05c0738sk-/"n 9a', max_size=60), st.booleans())
def test_no_spelling_of_a_known_secret_survives(around, doubly):
    """W6: what a JSON reader sees has no secret, whatever stands around it."""
    secret = "sk-aaaaaaaaaaaaaaaa9"
    inner = json.dumps(f"{around} {secret} {around}")
    text = json.dumps({"x": inner} if doubly else {"x": json.loads(inner)})
    text = text.replace("k", "\\u006b")
    clean = Redactor([secret]).redact_text(text)
    assert secret not in json.dumps(json.loads(clean, strict=False)) if is_json(clean) else True
    assert "\\u006b-aaaa" not in clean


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize("in_arguments", [False, True])
def test_an_escaped_secret_split_over_chunks_is_redacted(dialect, in_arguments):
    """W6: in the text of a stream, and within the JSON of its arguments."""
    secret = SECRETS_BY_KIND["key"]
    spelled = escaped(secret) if in_arguments else secret
    for at in range(1, len(spelled), 5):
        parts = (f'{{"x": "{spelled[:at]}', f'{spelled[at:]}"}}')
        deltas = [ToolCallDelta(part) if in_arguments else TextDelta(part) for part in parts]
        start = [ToolCallStart("call_1", "tool")] if in_arguments else []
        end = [ToolCallEnd()] if in_arguments else []
        events = [MessageStart("m", "m"), *start, *deltas, *end, MessageEnd(StopReason.END_TURN)]
        wire = DIALECTS[dialect].encoder(ReplyOptions()).feed(events)
        wire = wire.replace(b"k", b"\\u006b") if not in_arguments else wire
        assert Redactor().redact_events(events) != events
        clean = Redactor().redact_stream(wire, dialect, is_suspect=True).decode()
        assert "[redacted:key]" in clean
        assert "0123456789" not in clean.replace("\\", "")


def test_a_cut_leaves_no_half_of_an_escaped_secret():
    secret = escaped("the-own-key-of-the-gateway")
    data = f"some text {secret} and more ".encode()
    for at in range(len(data)):
        head, tail = _without_partial_words(data[:at], data[at:])
        for part in (head, tail):
            clean = Redactor(["the-own-key-of-the-gateway"]).redact_bytes(part)
            assert b"u0074" not in clean.replace(b"[redacted:known]", b"")
