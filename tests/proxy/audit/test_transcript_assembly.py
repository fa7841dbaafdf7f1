"""A transcript is looked through at once, and has what it would have if each part were for itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.audit.transcripts import assembly
from proxy.audit.transcripts.assembly import packed_transcript
from proxy.audit.transcripts.codec import unpack
from proxy.security.redaction import Redactor
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


def said_of(exchange):
    return unpack(packed_transcript(exchange, Redactor(exchange.secrets)))


@pytest.fixture
def looked(monkeypatch):
    """By whom the parts of transcripts were looked at."""
    names, parts = [], assembly._parts

    def noted(exchange, redactor, *args, **kwargs):
        names.append(type(redactor).__name__)
        return parts(exchange, redactor, *args, **kwargs)

    monkeypatch.setattr(assembly, "_parts", noted)
    return names


def both(monkeypatch, exchange):
    """A transcript, and the same with each part looked at for itself."""
    together = said_of(exchange)
    with monkeypatch.context() as patch:
        patch.setattr(assembly, "_is_clean", lambda *_: False)
        return together, said_of(exchange)


@given(asked=words, agent=words, answer=st.lists(words, min_size=1, max_size=4))
def test_it_makes_no_difference_how_secrets_are_looked_for(asked, agent, answer):
    with pytest.MonkeyPatch.context() as monkeypatch:
        body = turn(asked or "?")
        headers = {"user-agent": agent}
        texts = [text for text in answer if text] or ["Hi"]
        exchange = answered(body, *texts, secrets=[KEY, QUOTED], headers=headers)
        together, apart = both(monkeypatch, exchange)
        assert together == apart


@given(asked=quiet, agent=quiet, answer=st.lists(quiet, min_size=1, max_size=4))
def test_what_has_no_secret_is_kept_as_it_was(asked, agent, answer):
    body = turn(asked or "?")
    texts = [text for text in answer if text] or ["Hi"]
    exchange = answered(body, *texts, secrets=[KEY], headers={"user-agent": agent})
    said = said_of(exchange)
    assert said.request == body.decode()
    assert said.raw == stream(*[{"content": text} for text in texts])
    assert said.redactions == 0


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_found_however_the_answer_is_cut(secret):
    for at in range(1, len(secret)):
        exchange = answered(turn("Hi"), secret[:at], secret[at:], secrets=[KEY, QUOTED])
        said = said_of(exchange)
        spoken = "".join(event["text"] for name, event in said.events if name == "TextDelta")
        assert "redacted" in spoken
        assert said.redactions
        assert secret.removeprefix("Bearer ") not in spoken
        assert secret.removeprefix("Bearer ").encode() not in said.raw + said.sent


@pytest.mark.parametrize("secret", [KEY, "xsk-or-v1-0123456789abcdef0123", *SECRETS[:3]])
def test_no_cut_of_a_header_leaves_half_a_secret(secret, monkeypatch):
    known = [KEY, "xsk-or-v1-0123456789abcdef0123"]
    for size in range(470, 505):
        headers = {"user-agent": "claude-cli" + " " * (size - 10) + secret + " and more"}
        together, apart = both(
            monkeypatch, answered(turn("Hi"), "Hi", secrets=known, headers=headers)
        )
        assert together == apart
        assert secret[:8] not in together.headers["user-agent"]


def test_an_answer_that_is_not_kept_whole_is_looked_through_once(looked):
    said = said_of(answered(turn("Hi"), *["Hello " * 50] * 300, limit=20_000))
    assert said.left_out.keys() >= {"raw", "sent"}
    assert looked == ["Redactor"]


def test_what_was_taken_out_of_tools_is_counted():
    tools = [{"name": f"t_{KEY}", "input_schema": {"type": "object"}}]
    said = said_of(answered(turn("Hi", tools=tools), "Hi", secrets=[KEY]))
    spelt = [{"name": "t", "input_schema": {"type": "object", "x": KEY}}]
    other = said_of(answered(turn("Hi", tools=spelt), "Hi", secrets=[KEY]))
    assert (said.tools[0]["name"], said.redactions) == ("t_[redacted:known]", 2)
    assert (other.tools[0]["schema"]["x"], other.redactions) == ("[redacted:known]", 2)


def test_the_length_of_a_part_hides_no_secret_at_its_beginning(monkeypatch):
    """It stands in front of it, and may be a letter's or a digit's byte."""
    key = b"sk-0123456789abcdef0123456789\n"
    for padding in range(256):
        raw = key + b":" * padding + b"\n" + stream({"content": "Hi"})
        together, apart = both(monkeypatch, answered(turn("Hi"), raw=raw))
        assert together == apart
        assert together.redactions == 1


def test_what_was_clean_is_looked_through_once(looked):
    said_of(answered(turn("Hi"), "Hello"))
    assert looked == ["Trusting"]
    said_of(answered(turn(f"my {KEY}"), "Hello", secrets=[KEY]))
    assert looked[1:] == ["Trusting", "Redactor"]
