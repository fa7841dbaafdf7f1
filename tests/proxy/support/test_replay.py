"""Replay: a stored answer is decoded again, and compared with the original result."""

import json
import socket

import pytest

from formats import ToolCallEnd, read_definition
from proxy.audit.transcripts.codec import load_event, pack
from proxy.models import (
    FormatDefinition,
    FormatOverride,
    FormatSettings,
    Outcome,
    Replay,
    Transcript,
)
from proxy.support import definition_trial
from proxy.support.definition_trial import try_on_stored
from proxy.support.replay import NotReplayable, original_events, raw_answer, replay
from tests.support.muse import MODEL, MUSE, answer, muse
from tests.support.stored_exchanges import (
    KIMI,
    configure,
    exchange_row,
    leaked_kimi,
    stored_exchange,
)
from tests.support.wire import stream

pytestmark = pytest.mark.django_db
OTHER = [{"kind": "envelope", "markers": {"BLOCK": ["<|other|>"], "BLOCK_END": ["<|end|>"]}}]


@pytest.fixture(autouse=True)
def _configured():
    configure()


def check(row, result, **options):
    outcome = replay(row, **options)
    assert (outcome.result, outcome.pk) == (result, None)
    return outcome


def test_leaked_markup_is_fixed_by_its_format():
    row = leaked_kimi()
    check(row, Replay.Result.STILL_FAILING, format_name="standard")
    outcome = check(row, Replay.Result.FIXED, format_name="kimi")
    assert outcome.format == "kimi"
    assert ["ToolCallEnd", {}] in outcome.events
    assert [load_event(fields) for fields in outcome.events]
    assert b"get_tide" in outcome.sent


def test_leaked_markup_is_fixed_by_auto_if_the_tool_is_declared():
    outcome = check(leaked_kimi(), Replay.Result.FIXED)
    assert outcome.format == "auto"
    assert ["Notice", {"code": "family_read", "detail": "kimi"}] in outcome.events
    undeclared = stream({"content": KIMI.replace("get_tide", "get_moon")})
    check(stored_exchange(undeclared, leaked_format="kimi"), Replay.Result.STILL_FAILING)


def test_markup_of_another_family_is_not_fixed_by_a_format_that_ignores_it():
    row = stored_exchange(
        stream({"content": "<minimax:tool_call>get</minimax:tool_call>"}), leaked_format="minimax"
    )
    check(row, Replay.Result.STILL_FAILING, format_name="kimi")


def test_a_replay_uses_current_overrides():
    row = leaked_kimi()
    FormatOverride.objects.create(pattern="acme/*", format="kimi")
    assert check(row, Replay.Result.FIXED).format == "kimi"


def test_a_replay_reads_an_operators_format_as_it_is_and_the_original_as_it_was():
    text = json.dumps(MUSE, sort_keys=True)
    FormatDefinition.objects.create(name="muse", definition=MUSE)
    leaked = stored_exchange(answer(), leaked_format="unknown")
    check(leaked, Replay.Result.STILL_FAILING)
    tried = check(leaked, Replay.Result.FIXED, format_name="muse")
    assert json.loads(tried.definition) == MUSE
    # A clipped transcript is decoded again, with the definition that read it.
    read = stored_exchange(answer(), format="muse", definition=text)
    content = read.transcript.content
    content.left_out["events"] = [0, 1]
    Transcript.objects.filter(exchange=read).update(packed=pack(content))
    FormatDefinition.objects.update(definition=muse(grammars=OTHER))
    content = Transcript.objects.get(exchange=read).content
    assert ToolCallEnd() in original_events(content)
    check(read, Replay.Result.NEWLY_BROKEN)


def test_an_inactive_format_is_not_replayed():
    FormatDefinition.objects.create(name="muse", definition=MUSE, active=False)
    with pytest.raises(NotReplayable, match="there is no format 'muse'"):
        replay(leaked_kimi(), format_name="muse")


def test_a_definition_is_tried_on_the_leaked_answers_of_one_model():
    for harbor in ("Moss", "Bergen"):
        stored_exchange(answer(harbor), leaked_format="unknown", upstream_model=MODEL)
    broken = stored_exchange(
        answer().replace(b"<|do|>", b"<|does|>"), leaked_format="unknown", upstream_model=MODEL
    )
    stored_exchange(answer(), leaked_format="unknown", upstream_model="another/model")
    exchange_row(leaked_format="unknown", upstream_model=MODEL)  # without a transcript
    trial = try_on_stored(read_definition(MUSE), MODEL)
    assert (trial.tried, trial.calls, trial.left_out) == (3, 2, 0)
    assert trial.others == [(broken, "No call was read.")]
    assert not Replay.objects.exists()


def test_a_trial_stops_when_its_time_is_over(monkeypatch):
    stored_exchange(answer(), leaked_format="unknown", upstream_model=MODEL)
    monkeypatch.setattr(definition_trial, "_MAX_SECONDS", -1)
    trial = try_on_stored(read_definition(MUSE), MODEL)
    assert (trial.tried, trial.left_out) == (0, 1)


def test_a_trial_leaves_out_an_answer_that_could_take_minutes():
    long = stream({"content": "<" * 300_000})
    row = stored_exchange(long, leaked_format="unknown", upstream_model=MODEL)
    trial = try_on_stored(read_definition(MUSE), MODEL)
    assert trial.others == [(row, "It is too long to try here.")]


def test_a_replay_uses_current_limit_strictness_and_markers_by_default():
    FormatSettings.objects.filter(format="kimi").update(
        buffer_limit=2048, strict=True, markers={"CALL_END": ["<|done|>"]}
    )
    raw = stream({"content": KIMI.replace("<|tool_call_end|>", "<|done|>")})
    row = stored_exchange(raw, leaked_format="kimi")
    outcome = check(row, Replay.Result.FIXED, format_name="kimi")
    assert (outcome.buffer_limit, outcome.strict) == (2048, True)
    outcome = check(row, Replay.Result.FIXED, format_name="kimi", held_chars=4096, strict=False)
    assert (outcome.buffer_limit, outcome.strict) == (4096, False)


def test_a_replay_can_split_off_thinking():
    row = stored_exchange(stream({"content": "<think>One.</think>Two."}))
    assert check(row, Replay.Result.SAME).split_thinking is None
    outcome = check(row, Replay.Result.DIFFERENT, split_thinking="marked")
    assert outcome.split_thinking == "marked"
    assert ["ReasoningDelta", {"text": "One."}] in outcome.events
    FormatSettings.objects.update_or_create(format="auto", defaults={"split_thinking": "opened"})
    assert check(row, Replay.Result.DIFFERENT).split_thinking == "opened"


def test_a_good_answer_that_stays_good_is_the_same():
    row = stored_exchange(stream({"content": "Hello"}))
    check(row, Replay.Result.SAME)
    check(row, Replay.Result.SAME, format_name="kimi")


def test_an_answer_that_strict_decoding_breaks_is_newly_broken():
    raw = stream({"content": KIMI.removesuffix("<|tool_calls_section_end|>")})
    row = stored_exchange(raw, format="kimi")
    check(row, Replay.Result.SAME, format_name="kimi")
    outcome = check(row, Replay.Result.NEWLY_BROKEN, format_name="kimi", strict=True)
    assert "format_transformation_error" in outcome.error


def test_a_good_answer_with_another_result_is_different():
    row = stored_exchange(stream({"content": "Hello<|im_end|>"}))
    check(row, Replay.Result.DIFFERENT, format_name="kimi")


def test_a_failure_that_remains_is_still_failing():
    row = stored_exchange(b"data: {\n\n", outcome=Outcome.UPSTREAM_ERROR)
    check(row, Replay.Result.STILL_FAILING)


def test_an_unfinished_answer_after_a_disconnect_is_not_newly_broken():
    raw = stream({"content": "Hel"}, finish=None, done=False)
    row = stored_exchange(raw, outcome=Outcome.CLIENT_DISCONNECT, transcript={"events": []})
    check(row, Replay.Result.STILL_FAILING)


def test_a_clipped_answer_is_decoded_without_its_partial_events():
    raw = stream({"content": "one "}, {"content": "two "}, {"content": "three"})
    at = raw.index(b"two")
    clipped = raw[:at] + raw[at + 10 :]
    row = stored_exchange(raw, transcript={"raw": clipped, "left_out": {"raw": [at, 10]}})
    assert b"two" not in raw_answer(row.transcript.content)
    outcome = check(row, Replay.Result.SAME)
    assert ["TextDelta", {"text": "one three"}] in outcome.events


@pytest.mark.parametrize(
    ("transcript", "reason"),
    [
        (None, "no transcript"),
        ({"raw": b""}, "sent no answer"),
        ({"reading": {}}, "sent no answer"),
    ],
)
def test_an_exchange_without_an_answer_is_not_replayable(transcript, reason):
    if transcript is None:
        row = exchange_row()
    else:
        row = stored_exchange(stream({"content": "Hello"}), transcript=transcript)
    with pytest.raises(NotReplayable, match=reason):
        replay(row)


def test_a_replay_uses_no_network_and_changes_no_stored_row(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a replay opened a socket")

    row = leaked_kimi()
    before = list(Transcript.objects.values())
    monkeypatch.setattr(socket, "socket", refuse)
    replay(row, format_name="kimi").save()
    assert list(Transcript.objects.values()) == before


def test_an_unknown_format_is_rejected():
    with pytest.raises(NotReplayable, match="no format"):
        replay(leaked_kimi(), format_name="klingon")
