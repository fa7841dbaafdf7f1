"""Retention: old rows are deleted in batches, by one process at a time."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from proxy.audit.retention import CHORE, AlreadyPruning, Retention, prune
from proxy.models import (
    Chore,
    Comment,
    Exchange,
    FailureGroup,
    FailureHour,
    GatewaySettings,
    Replay,
    Transcript,
)
from proxy.telemetry.metrics import ROWS_REMAINING
from tests.support.stored_exchanges import exchange_row, failure_group, stored_exchange

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def gateway_row(monkeypatch):
    # The connection has the transaction of the test, and must stay open.
    monkeypatch.setattr("proxy.audit.retention.renew_connection", lambda: None)
    return GatewaySettings.objects.create(pk=1, transcript_days=7, exchange_days=90)


def days_ago(days):
    return NOW - timedelta(days=days)


def test_transcripts_are_deleted_before_their_exchanges():
    rows = {
        days: stored_exchange(b"data: [DONE]\n\n", created_at=days_ago(days)) for days in (91, 8, 1)
    }
    Replay.objects.create(
        exchange=rows[91],
        format="kimi",
        buffer_limit=1024,
        configuration_version=1,
        result="same",
        sent=b"",
    )
    assert prune(now=NOW) == {
        "transcripts": 2,
        "shared request parts": 0,
        "exchanges": 1,
        "traffic sums": 0,
        "duration counts": 0,
        "failure hours": 0,
        "failure groups": 0,
    }
    assert set(Exchange.objects.all()) == {rows[1], rows[8]}
    assert Transcript.objects.get().exchange == rows[1]
    assert not Replay.objects.exists()


def test_untouched_groups_are_deleted_with_their_last_failure(admin_user):
    fields = {"first_seen": days_ago(100), "last_seen": days_ago(91)}
    failure_group(**fields)
    kept = {
        failure_group(**fields, state="ignored"),
        failure_group(**fields, assignee=admin_user),
        failure_group(first_seen=days_ago(100), last_seen=days_ago(89)),
        failure_group(**fields),
    }
    commented = max(kept, key=lambda group: group.pk)
    Comment.objects.create(group=commented, text="known")
    FailureHour.objects.create(group=commented, hour=days_ago(91), count=1)
    deleted = prune(now=NOW)
    assert (deleted["failure groups"], deleted["failure hours"]) == (1, 1)
    assert set(FailureGroup.objects.all()) == kept


def test_batches_are_bounded_with_a_pause_between_them():
    for _ in range(25):
        exchange_row(created_at=days_ago(200))
    pauses = []
    assert prune(now=NOW, batch=10, pause=lambda: pauses.append(1))["exchanges"] == 25
    assert len(pauses) == 3


def test_a_stopped_run_is_due_again():
    for _ in range(25):
        exchange_row(created_at=days_ago(200))
    assert prune(now=NOW, batch=10, pause=lambda: True)["exchanges"] == 10
    assert Exchange.objects.count() == 15
    assert Chore.objects.get(name=CHORE).done_at is None
    assert prune(now=NOW, batch=10, unless_done_since=days_ago(1))["exchanges"] == 15


def test_only_one_process_prunes_and_a_dead_one_does_not_block_for_long():
    assert Chore.acquire(CHORE, "other", now=NOW, hold=timedelta(minutes=5))
    with pytest.raises(AlreadyPruning):
        prune(now=NOW)
    assert prune(now=NOW, unless_done_since=days_ago(1)) is None
    assert prune(now=NOW + timedelta(minutes=6)) is not None
    assert not Chore.extend(CHORE, "other", NOW)


def test_a_process_that_lost_the_lock_stops_pruning():
    for _ in range(20):
        exchange_row(created_at=days_ago(200))

    def lose():
        Chore.objects.update(holder="another")

    assert prune(now=NOW, batch=10, pause=lose)["exchanges"] == 10
    assert Chore.objects.get().holder == "another"


def test_one_of_many_processes_does_the_daily_run(monkeypatch):
    exchange_row(created_at=datetime.now(UTC) - timedelta(days=200))
    processes = [Retention() for _ in range(3)]
    runs = []
    monkeypatch.setattr("proxy.audit.retention.logger.info", lambda *words: runs.append(words))
    for process in processes:
        process.prune_if_due()
    assert len(runs) == 1
    assert not Exchange.objects.exists()


def test_a_failed_daily_run_is_tried_again(caplog, monkeypatch):
    GatewaySettings.objects.all().delete()
    monkeypatch.setattr("proxy.audit.retention.logger.propagate", True)
    process = Retention()
    process.prune_if_due()
    assert Chore.objects.get(name=CHORE).held_until is None
    GatewaySettings.objects.create(pk=1)
    process.prune_if_due()
    assert Chore.objects.get(name=CHORE).done_at is not None


def test_rows_left_by_a_failed_run_are_in_the_metrics(monkeypatch):
    exchange_row(created_at=datetime.now(UTC) - timedelta(days=200))

    def fail(**options):
        raise OperationalError("the database is locked")

    with monkeypatch.context() as broken:
        broken.setattr("proxy.audit.retention.prune", fail)
        Retention().prune_if_due()
    assert ROWS_REMAINING._value.get() == 1
    Retention().prune_if_due()
    assert ROWS_REMAINING._value.get() == 0
    exchange_row(created_at=datetime.now(UTC) - timedelta(days=200))
    Retention().prune_if_due()
    assert ROWS_REMAINING._value.get() == 0, "the next run deletes it"


def test_a_run_is_limited_in_time_and_remaining_rows_are_counted(monkeypatch):
    monkeypatch.setattr("proxy.audit.retention._MAX_RUN_SECONDS", 0)
    for _ in range(3):
        stored_exchange(b"data: [DONE]\n\n", created_at=datetime.now(UTC) - timedelta(days=200))
    process = Retention()
    process.prune_if_due()
    assert (Transcript.objects.count(), Exchange.objects.count()) == (0, 3), "one batch"
    assert ROWS_REMAINING._value.get() == 3
    process.prune_if_due()  # due again, because it was not finished
    assert Exchange.objects.count() == 0


def test_the_prune_command_reports_what_it_deleted():
    stored_exchange(b"x", created_at=datetime.now(UTC) - timedelta(days=200))
    out = StringIO()
    call_command("prune", "--batch", "10", "--pause", "0", stdout=out)
    assert out.getvalue() == (
        "Deleted 1 transcripts, 1 exchanges, 0 shared request parts, 0 traffic sums, "
        "0 duration counts, 0 failure hours, 0 failure groups.\n"
    )
    Chore.acquire(CHORE, "other", now=datetime.now(UTC), hold=timedelta(minutes=5))
    with pytest.raises(CommandError, match="another process"):
        call_command("prune", stdout=out)
    with pytest.raises(CommandError, match="--batch"):
        call_command("prune", "--batch", "0", stdout=out)


def test_the_gateway_prunes_in_a_thread(monkeypatch):
    seen = []
    monkeypatch.setattr(
        Retention, "prune_if_due", lambda self: seen.append(threading.current_thread().name)
    )

    async def main():
        task = asyncio.create_task(Retention().run(first_after=0))
        while not seen:
            await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(main())
    assert len(seen) == 1
    assert seen[0].startswith("retention")
