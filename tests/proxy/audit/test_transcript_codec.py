"""The transcript codec: packing, unpacking, and unreadable bytes."""

import json
import os
from contextlib import suppress

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from proxy.audit.transcripts.codec import TranscriptContent, Unreadable, pack, unpack
from proxy.models import Transcript
from proxy.roles import SUPPORT
from tests.support.api_clients import staff_user, token_client
from tests.support.staff_pages import get, log_in, text_of
from tests.support.stored_exchanges import configure, exchange_row, stored_exchange
from tests.support.wire import stream

CONTENT = TranscriptContent(
    headers={"user-agent": "claude-cli/2.0"},
    request='{"model": "ø"}',
    tools=[
        {"name": "look", "schema": {"type": "object", "maximum": 10**30, "x": [1, -2.5e3, None]}},
        {"name": "patch", "schema": {}, "is_custom": True},
    ],
    reading={"client": "anthropic", "taken_ids": ["a"], "aliases": {"a": "b"}, "max_calls": None},
    raw=b"\xff\x00data: {}\n\n",
    arrivals=[[0, 12.5], [7, 13.0]],
    events=[["TextDelta", {"text": "ø"}], ["MessageEnd", {"usage": {"input": 10**25}}]],
    sent=b"",
    left_out={"raw": [5, 99]},
    redactions=3,
)


@pytest.fixture
def support(db):
    configure()
    web = Client()
    log_in(web, SUPPORT)
    return web


def exchange_with_damaged_transcript():
    row = stored_exchange(stream({"content": "Hello"}))
    Transcript.objects.update(packed=bytes(row.transcript.packed)[:-3])
    return row


def test_unpacking_is_the_inverse_of_packing():
    unpacked = unpack(pack(CONTENT))
    assert unpacked == CONTENT
    assert json.dumps(asdict(unpacked), default=repr) == json.dumps(asdict(CONTENT), default=repr)
    assert unpack(pack(TranscriptContent())) == TranscriptContent()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"abc",
        bytes(100),
        os.urandom(200),
        pack(CONTENT)[:-1],
        pack(CONTENT) + b"x",
        b"\xff\xff\xff\x7f" + pack(CONTENT)[4:],
        b"\xff\xff\xff\xff" + pack(CONTENT)[4:],
    ],
)
def test_bytes_that_are_not_a_transcript_are_unreadable(data):
    with pytest.raises(Unreadable):
        unpack(data)


@given(st.data())
def test_a_damaged_transcript_raises_only_unreadable(data):
    packed = bytearray(pack(CONTENT))
    packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(Unreadable):
        unpack(bytes(packed))


def test_a_row_with_unpacked_columns_has_the_same_content(db):
    row = exchange_row()
    Transcript.objects.create(exchange=row, **asdict(CONTENT))
    assert Transcript.objects.get().content == CONTENT


def test_the_page_of_an_unreadable_transcript_says_so(support):
    row = exchange_with_damaged_transcript()
    page = text_of(get(support, row.get_absolute_url()))
    assert (
        "A transcript was kept but cannot be read: its bytes are not a packed transcript." in page
    )
    assert support.get(reverse("audit:fixture", args=[row.request_id])).status_code == 404
    replayed = support.post(reverse("audit:replay", args=[row.request_id]), follow=True)
    assert "This exchange cannot be replayed: its transcript cannot be read" in text_of(replayed)


def test_the_api_reports_an_unreadable_transcript(db):
    configure()
    row = exchange_with_damaged_transcript()
    response = token_client(staff_user(SUPPORT)).get(f"/api/transcripts/{row.request_id}/")
    assert (response.status_code, response.json()["detail"]) == (
        409,
        "This transcript cannot be read: its bytes are not a packed transcript.",
    )
    with pytest.raises(CommandError, match="needs exactly one replayable exchange"):
        call_command("replay", "--request-id", row.request_id, "--save-fixture", "x")
