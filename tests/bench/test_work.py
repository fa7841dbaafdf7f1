"""The work of a request is counted and compared with work.json, so that it cannot grow unnoticed."""

import json
import subprocess
import sys

from bench.servers import ROOT
from bench.work import MARGIN, RECORDED, advice, grown, shrunk


def test_a_request_takes_no_more_work_than_recorded():
    # In a process of its own: pytest's plugins trace calls, and would be counted.
    completed = subprocess.run(
        [sys.executable, "-m", "bench.work"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert completed.returncode == 0, completed.stderr


def test_only_cases_above_the_margin_have_grown():
    recorded = {"a little": 1000, "a lot": 1000, "unchanged": 1000}
    counts = {"a little": int(1000 * MARGIN), "a lot": int(1000 * MARGIN) + 2, "unchanged": 990}
    assert grown(counts, recorded) == ["a lot: 1252 calls, +25% (1000 recorded)"]
    assert shrunk(counts, recorded) == []


def test_a_case_without_a_record_and_a_record_without_a_case_are_named():
    lines = grown({"new": 10}, {"old": 10})
    assert [line.partition(":")[0] for line in lines] == ["new", "old"]


def test_a_case_that_shrank_is_reported():
    assert shrunk({"case": 500}, {"case": 1000}) == ["case: 500 calls, -50% (1000 recorded)"]


def test_the_message_says_what_grew_how_to_look_and_how_to_record():
    message = advice(grown({"the gateway, scenario B": 3000}, {"the gateway, scenario B": 2000}))
    assert "the gateway, scenario B: 3000 calls, +50% (2000 recorded)" in message
    assert 'python -m bench.work --only "the gateway, scenario B"' in message
    assert "python -m bench.work --record" in message


def test_the_record_has_the_gateway_and_every_dialect_and_format():
    names = json.loads(RECORDED.read_text())
    for part in ("the gateway, scenario B", "a request, openai", "qwen, openai to anthropic"):
        assert any(part in name for name in names)
