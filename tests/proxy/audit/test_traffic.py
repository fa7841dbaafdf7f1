"""The sums are what the exchanges say: after every batch, after a deletion, after the migration."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import count

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from proxy.audit.bulk_insert import insert_batch
from proxy.audit.journal.entries import EndEntry
from proxy.audit.recorder import AuditRecorder
from proxy.audit.retention import prune
from proxy.audit.traffic.aggregation import SUMS
from proxy.audit.traffic.histogram import bucket_of, percentile
from proxy.models import (
    FAILURES,
    Exchange,
    Facet,
    GatewaySettings,
    Measure,
    Outcome,
    Span,
    TrafficSum,
    TrafficTime,
)

fill = import_module("proxy.migrations.0005_traffic").fill
NOW = datetime(2026, 6, 1, 12, 34, tzinfo=UTC)
_numbers = count()


def entry(chance, **fields):
    """An exchange as anything may come of it."""
    row = {
        "request_id": f"req_{next(_numbers)}",
        "created_at": NOW - timedelta(seconds=chance.randrange(100 * 86400)),
        "dialect": "anthropic",
        "model": chance.choice(["a/b", "a/b c", "kimi", "", "’); DROP TABLE"]),
        "upstream": chance.choice(["openrouter", "vllm", ""]),
        "served_by": chance.choice(["Parasail", "Two Words", ""]),
        "format": chance.choice(["kimi", "standard", ""]),
        "status": 200,
        "outcome": chance.choice(Outcome.values),
        "tool_calls": chance.randrange(4),
        "rescued_calls": chance.choice([0, 0, 1, 3]),
        "leaked_format": chance.choice(["", "", "kimi"]),
        "input_tokens": chance.choice([None, 0, 2_000_000_000]),
        "output_tokens": chance.choice([None, None, 7]),
        "cache_read_tokens": None,
        "first_byte_ms": chance.choice([None, 0.0, chance.lognormvariate(6, 2)]),
        "duration_ms": 1.0,
        "gateway_ms": chance.lognormvariate(1, 1),
        "configuration_version": 1,
        **fields,
    }
    return EndEntry(row, None)


def told(numbers):
    """Their sum; None if there is no number."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def expected():
    """The sums and counts, from the rows that are there."""
    rows = {}
    times = Counter()
    for row in Exchange.objects.all():
        hour = row.created_at.replace(minute=0, second=0, microsecond=0)
        for span, start in ((Span.HOUR, hour), (Span.DAY, hour.replace(hour=0))):
            for facet, value in (
                (Facet.ALL, ""),
                (Facet.MODEL, row.model),
                (Facet.FORMAT, row.format),
                (Facet.SERVED_BY, f"{row.upstream} {row.served_by}"),
            ):
                rows.setdefault((span, facet, start, value), []).append(row)
            if row.outcome != "crashed":
                times[span, Measure.GATEWAY, start, bucket_of(row.gateway_ms)] += 1
            if row.first_byte_ms is not None and row.outcome == "ok":
                times[span, Measure.FIRST_BYTE, start, bucket_of(row.first_byte_ms)] += 1
    sums = {
        key: (
            len(found),
            len([row for row in found if row.outcome in FAILURES]),
            len([row for row in found if row.outcome == "client_error"]),
            len([row for row in found if row.outcome == "client_disconnect"]),
            sum(row.tool_calls for row in found),
            sum(row.rescued_calls for row in found),
            len([row for row in found if row.rescued_calls]),
            len([row for row in found if row.leaked_format]),
            told(row.input_tokens for row in found),
            told(row.output_tokens for row in found),
            told(row.cache_read_tokens for row in found),
        )
        for key, found in rows.items()
    }
    return sums, dict(times)


def stored():
    keys = ("span", "facet", "start", "value")
    sums = {tuple(row[:4]): tuple(row[4:]) for row in TrafficSum.objects.values_list(*keys, *SUMS)}
    rows = TrafficTime.objects.values_list("span", "measure", "start", "bucket", "count")
    assert len(sums) == TrafficSum.objects.count()
    return sums, {tuple(row[:4]): row[4] for row in rows}


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(5))
def test_the_sums_are_what_the_exchanges_say(seed):
    chance = random.Random(seed)
    GatewaySettings.objects.create(pk=1, exchange_days=90)
    for size in (1, 7, 150, 40):
        insert_batch([entry(chance) for _ in range(size)])
        assert stored() == expected()
    prune(now=NOW)
    assert Exchange.objects.count() < 198
    assert stored() == expected()
    Exchange.objects.filter(outcome="crashed").delete()  # at the time of the migration: none
    TrafficSum.objects.all().delete()
    TrafficTime.objects.all().delete()
    fill(apps, None)
    assert stored() == expected()


@pytest.mark.django_db
def test_a_row_that_the_database_refuses_is_in_no_sum(monkeypatch):
    monkeypatch.setattr("proxy.audit.recorder.renew_connection", lambda: None)
    audit, chance = AuditRecorder(), random.Random(1)
    for number in range(5):
        audit.add(entry(chance, status=None if number == 2 else 200))
    audit._write_all()
    assert (audit.pending, audit.dropped) == (0, 1)
    assert Exchange.objects.count() == 4
    assert stored() == expected()


@pytest.mark.django_db
@pytest.mark.parametrize("size", [1, 200])
def test_a_batch_is_added_in_two_statements_however_long_it_is(size):
    chance = random.Random(1)
    with CaptureQueriesContext(connection) as made:
        insert_batch([entry(chance) for _ in range(size)])
    assert len([one for one in made.captured_queries if "ON CONFLICT" in one["sql"]]) == 2


@pytest.mark.parametrize("share", [0.01, 0.5, 0.95, 0.99, 1])
@pytest.mark.parametrize("seed", range(3))
def test_a_percentile_is_right_but_for_a_bucket(seed, share):
    chance = random.Random(seed)
    took = sorted(chance.lognormvariate(6, 1.5) for _ in range(2000))
    found = percentile(Counter(map(bucket_of, took)), share)
    exact = took[max(0, round(len(took) * share) - 1)]
    assert exact / 1.1 < found < exact * 1.1


def test_percentiles_at_the_edges():
    assert percentile({}, 0.5) is None
    assert percentile({3: 0}, 0.5) is None
    assert bucket_of(0) == bucket_of(-1) == -80
    assert [bucket_of(2.0**n) for n in (0, 1, 10)] == [0, 8, 80]
    assert percentile({80: 1}, 1) == pytest.approx(1024 * 2 ** (1 / 8))


def test_the_tables_have_the_sums():
    columns = {field.name for field in TrafficSum._meta.get_fields()}
    assert columns == {"id", "span", "facet", "start", "value", *SUMS}
