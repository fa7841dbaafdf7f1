"""`manage.py replay`: results of replays, and saved fixtures."""

import json

import pytest

from tests.support.commands import run_command
from tests.support.stored_exchanges import (
    KIMI,
    configure,
    failure_group,
    leaked_kimi,
    stored_exchange,
)
from tests.support.wire import stream

pytestmark = pytest.mark.django_db
CUT = KIMI.split('"Bergen"')[0]


@pytest.fixture(autouse=True)
def configured(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    configure()


def run(*arguments):
    """Run the command; return its output and its error message."""
    printed, _, error = run_command("replay", *arguments)
    return printed, error


def test_another_format_fixes_a_leak():
    row = leaked_kimi()
    assert run("--request-id", row.request_id, "--format", "standard") == (
        f"{row.request_id}  still failing, as standard\n"
        "Total: 0 fixed, 1 still failing, 0 newly broken\n",
        "some exchanges fail",
    )
    assert run("--request-id", row.request_id)[0].startswith(f"{row.request_id}  fixed, as auto\n")
    assert run("--request-id", row.request_id, "--format", "kimi") == (
        f"{row.request_id}  fixed, as kimi\nTotal: 1 fixed, 0 still failing, 0 newly broken\n",
        "",
    )
    assert not row.replays.exists()


def test_a_group_replay_prints_each_result_and_the_totals():
    group = failure_group()
    fields = {"group": group, "format": "kimi", "upstream_model": "moonshotai/kimi-k2"}
    failing = {"outcome": "transform_failed", "error_code": "call_truncated"}
    stored_exchange(stream({"content": CUT}), **fields, **failing)
    stored_exchange(stream({"content": KIMI}), **fields, **failing)
    good = [["TextDelta", {"text": "Hi"}], ["MessageEnd", {"stop_reason": "end_turn"}]]
    stored_exchange(stream({"content": CUT}), **fields, transcript={"events": good})
    stored_exchange(stream({"content": "Hi"}), **fields)
    stored_exchange(b"", **fields)
    printed, failed = run("--group", group.pk)
    assert printed.splitlines()[-1] == (
        "Total: 1 fixed, 1 still failing, 1 newly broken, 1 the same, 1 not replayable"
    )
    assert "format_transformation_error" in printed
    assert failed == "some exchanges fail"


def test_replay_can_be_strict():
    row = stored_exchange(
        stream({"content": KIMI.removesuffix("<|tool_calls_section_end|>")}),
        format="kimi",
        upstream_model="moonshotai/kimi-k2",
    )
    assert "the same" in run("--request-id", row.request_id)[0]
    assert "newly broken" in run("--request-id", row.request_id, "--strict")[0]


def test_missing_transcripts_and_groups_are_reported():
    assert run("--request-id", "req_0")[1] == "no transcript is stored for 'req_0'"
    assert run("--group", "7")[1] == "no failure group has the id 7"
    assert "is not a transcript from the API" in run("--file", "/nonexistent.json")[1]


def test_model_output_cannot_control_the_terminal():
    raw = b'data: {"error": {"message": "\\u001b[31mred\\u0007", "code": 500}}\n\n'
    row = stored_exchange(raw, outcome="upstream_error")
    printed, _ = run("--request-id", row.request_id)
    assert "[31mred" in printed
    assert "\x1b" not in printed
    assert "\x07" not in printed


def test_a_simple_fixture_is_saved_as_a_vector_line(tmp_path):
    row = leaked_kimi()
    arguments = ("--request-id", row.request_id, "--into", tmp_path, "--save-fixture")
    printed, _ = run(*arguments, "lost-override", "--format", "kimi")
    path = tmp_path / "native" / "kimi.jsonl"
    assert f"Saved {path}" in printed
    (vector,) = map(json.loads, path.read_text().splitlines())
    assert (vector["id"], vector["format"], vector["text"]) == ("lost-override", "kimi", KIMI)
    assert vector["expect"]["text"] == "Let me look."
    assert [call["arguments"] for call in vector["expect"]["calls"]] == [{"harbor": "Bergen"}]
    assert "already" in run(*arguments, "lost-override", "--format", "kimi")[1]
    run(*arguments, "another", "--format", "kimi")
    assert len(path.read_text().splitlines()) == 2
    assert "lowercase letters" in run(*arguments, "../evil", "--format", "kimi")[1]


def test_a_complex_fixture_is_saved_as_a_wire_file(tmp_path):
    raw = stream({"reasoning_content": "hm"}, {"content": KIMI})
    row = stored_exchange(raw, format="kimi", upstream_model="moonshotai/kimi-k2")
    arguments = ("--request-id", row.request_id, "--into", tmp_path, "--save-fixture", "two")
    run(*arguments)
    fixture = json.loads((tmp_path / "wire" / "two.json").read_text())
    assert fixture["raw"].encode() == raw
    assert fixture["expect"][-1][0] == "MessageEnd"
    assert "already exists" in run(*arguments)[1]


def test_a_fixture_needs_exactly_one_exchange(tmp_path):
    group = failure_group()
    for _ in range(2):
        leaked_kimi(group=group)
    failed = run("--group", group.pk, "--into", tmp_path, "--save-fixture", "both")[1]
    assert failed == "--save-fixture needs exactly one replayable exchange"
