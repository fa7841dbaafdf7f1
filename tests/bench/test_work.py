"""Work of a request must not grow unnoticed: it is counted, and compared with what is recorded."""

import json
import subprocess
import sys

from bench.servers import ROOT
from bench.work import MARGIN, RECORDED, grown, shrunk


def test_a_request_takes_no_more_work_than_is_recorded():
    # A process of its own: the tests' plugins trace calls, and would be counted.
    done = subprocess.run(
        [sys.executable, "-m", "bench.work"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_every_case_that_grew_is_named():
    recorded = {"little": 1000, "much": 1000, "as before": 1000}
    counts = {"little": int(1000 * MARGIN), "much": int(1000 * MARGIN) + 2, "as before": 990}
    assert [line.partition(":")[0] for line in grown(counts, recorded)] == ["much"]
    assert shrunk(counts, recorded) == []


def test_a_case_without_a_record_and_a_record_without_a_case_are_named():
    found = grown({"new": 10}, {"old": 10})
    assert [line.partition(":")[0] for line in found] == ["new", "old"]


def test_a_gain_is_told():
    assert len(shrunk({"case": 500}, {"case": 1000})) == 1


def test_the_record_has_the_gateway_and_every_dialect_and_format():
    names = json.loads(RECORDED.read_text())
    for part in ("the gateway, scenario B", "a request, openai", "qwen, openai to anthropic"):
        assert any(part in name for name in names)
