"""What is remembered of an exchange, and what never is."""

import json
import random

import pytest
from django.contrib.auth.models import Group

from proxy.audit import family
from proxy.capture import Clip, clip
from proxy.redaction import Redactor
from proxy.roles import ROLES
from tests.formats.wire import byte_cuts, stream


@pytest.mark.parametrize("limit", [2, 10, 100])
def test_a_clip_keeps_head_and_tail_however_the_bytes_come(limit):
    data = bytes(random.Random(1).randbytes(57))
    for parts in (
        [data],
        [data[at : at + 1] for at in range(57)],
        [data[:9], data[9:40], data[40:]],
    ):
        kept = Clip(limit)
        for part in parts:
            kept.add(part)
        assert kept.take() == clip(data, limit)
    head = limit // 2
    if limit < 57:
        assert clip(data, limit) == (data[:head] + data[-head:], head, 57 - 2 * head)
    else:
        assert clip(data, limit) == (data, 57, 0)


SECRETS = {
    "key": "sk-or-v1-0123456789abcdef0123",
    "github": "ghp_0123456789abcdef0123456789abcdef0123",
    "aws": "AKIA0123456789ABCDEF",
    "google": "AIza0123456789abcdef0123456789abcdef012",
    "slack": "xoxb-0123456789-abcdef",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
    "bearer": "abcdef0123456789abcdef",
    "known": "the client's own key",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_every_kind_of_secret_is_taken_out(kind):
    redactor = Redactor(["the client's own key"])
    before = "Bearer " if kind == "bearer" else "it is "
    assert (
        redactor.text(f"{before}{SECRETS[kind]}, you see") == f"{before}[redacted:{kind}], you see"
    )
    assert redactor.count == 1


def test_what_is_no_secret_stays():
    redactor = Redactor(["short", ""])
    text = "a task-force, desk-top, sk-8, Bearer of news, eyJ.a.b, short"
    assert (redactor.text(text), redactor.count) == (text, 0)


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_a_secret_that_is_split_over_chunks_is_found(dialect):
    from formats import DIALECTS, MessageEnd, MessageStart, ReplyOptions, StopReason, TextDelta

    secret = SECRETS["key"]
    for at in range(1, len(secret)):
        wire = stream({"content": f"x {secret[:at]}"}, {"content": f"{secret[at:]} y"})
        if dialect == "anthropic":
            deltas = [TextDelta(f"x {secret[:at]}"), TextDelta(f"{secret[at:]} y")]
            events = [MessageStart("m", "m"), *deltas, MessageEnd(StopReason.END_TURN)]
            wire = DIALECTS["anthropic"].encoder(ReplyOptions()).feed(events)
        clean = Redactor().stream(wire, dialect, is_suspect=True)
        assert "x [redacted:key] y" in clean.decode()


def test_bytes_that_are_no_text_are_kept():
    for part in byte_cuts(b"\xff\x00 plain \xfe", 2):
        assert b"".join(map(Redactor().redact, part)) == b"\xff\x00 plain \xfe"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("moonshotai/kimi-k2.5", "moonshotai/kimi"),
        ("qwen/qwen3-coder", "qwen/qwen"),
        ("deepseek-chat", "deepseek"),
        ("gpt-5", "gpt"),
        ("3-of-them", "3-of-them"),
    ],
)
def test_a_family_is_a_name_without_its_version(model, name):
    assert family(model) == name


@pytest.mark.django_db
def test_every_role_is_a_group_with_its_permissions():
    for name, codenames in ROLES.items():
        group = Group.objects.get(name=name)
        assert set(group.permissions.values_list("codename", flat=True)) == set(codenames)
    support = set(ROLES["support"])
    assert not {c for c in support if c.endswith(("upstream", "clientkey", "modelroute"))}
    assert "view_transcript" not in ROLES["operators"]
    assert json.dumps(sorted(ROLES)) == '["developers", "operators", "support"]'
