"""All nodes use the time of the database, even if the clock of one is wrong."""

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


def compare(clock, ahead, *, round_trip=timedelta()):
    """Compare with a database clock that is `ahead` of this machine's."""
    now = datetime.now(UTC)
    clock.compare(now - round_trip / 2 + ahead, asked_at=now - round_trip)


@pytest.mark.parametrize("ahead", [HOUR, -HOUR, timedelta(seconds=5)])
def test_now_is_the_time_of_the_database(ahead):
    clock = Clock()
    compare(clock, ahead)
    assert abs(clock.now() - datetime.now(UTC) - ahead) < timedelta(seconds=2)


def test_a_step_of_the_clock_is_corrected_by_the_next_query():
    clock = Clock()
    compare(clock, HOUR)
    compare(clock, 2 * HOUR)
    assert abs(clock.now() - datetime.now(UTC) - 2 * HOUR) < timedelta(seconds=2)
    compare(clock, timedelta())
    assert clock.skew == timedelta()


@pytest.mark.parametrize(
    ("ahead", "round_trip"),
    [
        (timedelta(seconds=0.7), timedelta()),
        (timedelta(seconds=-0.7), timedelta()),
        (timedelta(seconds=4), timedelta(seconds=4)),
    ],
)
def test_measurement_noise_is_not_skew(ahead, round_trip):
    clock = Clock()
    compare(clock, ahead, round_trip=round_trip)
    assert clock.skew == timedelta()


def test_a_skew_is_logged_once(caplog):
    clock = Clock()
    for _ in range(3):
        compare(clock, -HOUR)
    assert [record.getMessage() for record in caplog.records] == [
        "the database clock differs from this machine's by -3600 s; the gateway uses the database clock"
    ]


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory):
    """Library that shifts the clock of the process that loads it."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("needs cc, to compile the library that shifts the clock of a process")
    library = tmp_path_factory.mktemp("skew") / "skew.so"
    source = Path(__file__).parents[2] / "support" / "skew.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


@of_postgres
@pytest.mark.parametrize("seconds", [3600, -3600])
def test_keys_expire_by_the_database_clock_on_a_node_with_a_wrong_clock(
    upstream, tmp_path, preloaded, seconds
):
    environment = {"OPENROUTER_API_KEY": "x" * 20, "OPENROUTER_BASE_URL": upstream.url}
    skewed = Gateway(tmp_path, **environment, LD_PRELOAD=preloaded, CLOCK_SKEW=str(seconds)).start()
    upstream.script("test/clock", says("Hi"))
    started_at = datetime.now(UTC)
    try:
        skewed.edit(
            MAKE_KEY.format("sk-athena-valid", (started_at + HOUR / 2).isoformat())
            + MAKE_KEY.format("sk-athena-over", (started_at - HOUR / 2).isoformat())
        )
        with skewed.client(**{"x-api-key": "sk-athena-valid"}) as client:
            answered = client.post("/v1/messages", json=ask("test/clock"))
        assert answered.status_code == 200
        with skewed.client(**{"x-api-key": "sk-athena-over"}) as client:
            assert client.post("/v1/messages", json=ask("test/clock")).status_code == 401
        row = skewed.exchange(answered)
        # Rows of all nodes must sort together, and expire on time.
        off = datetime.fromisoformat(row["created_at"]).replace(tzinfo=UTC) - started_at
        assert timedelta(seconds=-2) < off < timedelta(seconds=60)
        assert f"the database clock differs from this machine's by {-seconds:+} s" in skewed.log
        assert f"the database's clock is {-seconds:+} s off" in skewed.manage("doctor").stdout
    finally:
        skewed.stop()
