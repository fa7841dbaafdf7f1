"""One time for all nodes, however wrong the clock of one of them is."""

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from proxy.database.clock import Clock
from tests.support.chat import ask, says
from tests.support.database import of_postgres
from tests.support.gateway import Gateway

HOUR = timedelta(hours=1)
MAKE_KEY = """
from datetime import datetime
key = ClientKey(label={0!r}, expires_at=datetime.fromisoformat({1!r}))
key.adopt({0!r})
key.save()
"""


def told(clock, ahead, *, taken=timedelta()):
    """Let the database's clock be so much ahead of this one's."""
    now = datetime.now(UTC)
    clock.compare(now - taken / 2 + ahead, asked_at=now - taken)


@pytest.mark.parametrize("ahead", [HOUR, -HOUR, timedelta(seconds=5)])
def test_the_databases_clock_counts(ahead):
    clock = Clock()
    told(clock, ahead)
    assert abs(clock.now() - datetime.now(UTC) - ahead) < timedelta(milliseconds=100)


def test_a_clock_that_steps_back_is_set_right_by_the_next_answer():
    clock = Clock()
    told(clock, HOUR)
    told(clock, 2 * HOUR)
    assert abs(clock.now() - datetime.now(UTC) - 2 * HOUR) < timedelta(seconds=1)
    told(clock, timedelta())
    assert clock.skew == timedelta()


@pytest.mark.parametrize(
    ("ahead", "taken"),
    [
        (timedelta(seconds=0.7), timedelta()),
        (timedelta(seconds=-0.7), timedelta()),
        (timedelta(seconds=4), timedelta(seconds=4)),
    ],
)
def test_the_noise_of_asking_is_no_skew(ahead, taken):
    clock = Clock()
    told(clock, ahead, taken=taken)
    assert clock.skew == timedelta()


def test_a_skew_is_logged_once(caplog):
    clock = Clock()
    for _ in range(3):
        told(clock, -HOUR)
    assert [record.getMessage() for record in caplog.records] == [
        "the database's clock is -3600 s from this machine's, and is the one that counts"
    ]


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory):
    """A library that sets the clock of the process that loads it."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("cc is not installed, and a process's clock is set by a library of ours")
    library = tmp_path_factory.mktemp("skew") / "skew.so"
    source = Path(__file__).parents[2] / "support" / "skew.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


@of_postgres
@pytest.mark.parametrize("seconds", [3600, -3600])
def test_keys_end_by_the_databases_clock_on_a_node_whose_own_is_wrong(
    upstream, tmp_path, preloaded, seconds
):
    environment = {"OPENROUTER_API_KEY": "x" * 20, "OPENROUTER_BASE_URL": upstream.url}
    skewed = Gateway(tmp_path, **environment, LD_PRELOAD=preloaded, CLOCK_SKEW=str(seconds)).start()
    upstream.script("test/clock", says("Hi"))
    began = datetime.now(UTC)
    try:
        skewed.edit(
            MAKE_KEY.format("sk-athena-valid", (began + HOUR / 2).isoformat())
            + MAKE_KEY.format("sk-athena-over", (began - HOUR / 2).isoformat())
        )
        with skewed.client(**{"x-api-key": "sk-athena-valid"}) as client:
            answered = client.post("/v1/messages", json=ask("test/clock"))
        assert answered.status_code == 200
        with skewed.client(**{"x-api-key": "sk-athena-over"}) as client:
            assert client.post("/v1/messages", json=ask("test/clock")).status_code == 401
        row = skewed.exchange(answered)
        # The rows of all nodes are in one order, and old ones are deleted in time.
        off = datetime.fromisoformat(row["created_at"]).replace(tzinfo=UTC) - began
        assert timedelta(seconds=-2) < off < timedelta(seconds=60)
        assert f"the database's clock is {-seconds:+} s from this machine's" in skewed.log
        assert f"the database's is {-seconds:+} s" in skewed.manage("doctor").stdout
    finally:
        skewed.stop()
