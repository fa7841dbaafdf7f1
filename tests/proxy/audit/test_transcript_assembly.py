"""Transcripts of exchanges have no secrets, and otherwise all that was sent and received."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.audit.transcripts.assembly import transcript_of
from proxy.audit.transcripts.codec import pack, unpack
from tests.support.answered_exchanges import answered, turn
from tests.support.wire import stream

KEY = "the-clients-own-key"
QUOTED = 'own "key" \\ of the client'
SECRETS = [
    "sk-or-v1-0123456789abcdef0123",
    "ghp_0123456789abcdef0123456789abcdef0123",
    "AKIA0123456789ABCDEF",
    "Bearer abcdef0123456789abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
    KEY,
    QUOTED,
]
PLAIN = [
    "The ebb. ",
    "task-force ",
    "sk-8 ",
    "ø\n",
    '"',
    "\\",
    "\0",
    "eyJ",
    "A",
    " Bearer of news ",
]

words = st.lists(st.sampled_from([*PLAIN, *SECRETS]), max_size=4).map("".join)
quiet = st.lists(st.sampled_from(PLAIN), max_size=4).map("".join)


def content_of(exchange):
    return unpack(pack(transcript_of(exchange)))


@given(asked=words, agent=words, answer=st.lists(words, min_size=1, max_size=4))
def test_a_known_secret_is_in_no_part(asked, agent, answer):
    texts = [text for text in answer if text] or ["Hi"]
    headers = {"user-agent": agent}
    exchange = answered(turn(asked or "?"), *texts, secrets=[KEY, QUOTED], headers=headers)
    content = content_of(exchange)
    assert KEY not in repr(msgspec.structs.asdict(content))
    assert bool(content.redactions) >= any(KEY in text for text in (asked, agent, "".join(texts)))


@given(asked=quiet, agent=quiet, answer=st.lists(quiet, min_size=1, max_size=4))
def test_content_without_secrets_is_kept_unchanged(asked, agent, answer):
    body = turn(asked or "?")
    texts = [text for text in answer if text] or ["Hi"]
    exchange = answered(body, *texts, secrets=[KEY], headers={"user-agent": agent})
    content = content_of(exchange)
    assert content.request == body.decode()
    assert content.raw == stream(*[{"content": text} for text in texts])
    assert content.redactions == 0


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_found_however_the_answer_is_cut(secret):
    for at in range(1, len(secret)):
        exchange = answered(turn("Hi"), secret[:at], secret[at:], secrets=[KEY, QUOTED])
        content = content_of(exchange)
        text = "".join(event["text"] for name, event in content.events if name == "TextDelta")
        assert "redacted" in text
        assert content.redactions
        assert secret.removeprefix("Bearer ") not in text
        assert secret.removeprefix("Bearer ").encode() not in content.raw + content.sent


@pytest.mark.parametrize("secret", [KEY, "xsk-or-v1-0123456789abcdef0123", *SECRETS[:3]])
def test_no_cut_of_a_header_leaves_half_a_secret(secret):
    known = [KEY, "xsk-or-v1-0123456789abcdef0123"]
    for size in range(470, 505):
        headers = {"user-agent": "claude-cli" + " " * (size - 10) + secret + " and more"}
        content = content_of(answered(turn("Hi"), "Hi", secrets=known, headers=headers))
        assert secret[:8] not in content.headers["user-agent"]


def test_a_long_answer_keeps_its_head_and_its_tail():
    content = content_of(answered(turn("Hi"), *["Hello " * 50] * 300, limit=20_000))
    assert content.left_out.keys() >= {"raw", "sent"}


def test_redactions_of_tools_are_counted():
    tools = [{"name": f"t_{KEY}", "input_schema": {"type": "object"}}]
    content = content_of(answered(turn("Hi", tools=tools), "Hi", secrets=[KEY]))
    spelt = [{"name": "t", "input_schema": {"type": "object", "x": KEY}}]
    other = content_of(answered(turn("Hi", tools=spelt), "Hi", secrets=[KEY]))
    assert (content.tools[0]["name"], content.redactions) == ("t_[redacted:known]", 2)
    assert (other.tools[0]["schema"]["x"], other.redactions) == ("[redacted:known]", 2)


def test_a_secret_at_the_very_start_of_an_answer_is_removed():
    key = b"sk-0123456789abcdef0123456789\n"
    for padding in range(256):
        raw = key + b":" * padding + b"\n" + stream({"content": "Hi"})
        content = content_of(answered(turn("Hi"), raw=raw))
        assert key.strip() not in content.raw
        assert content.redactions == 1
