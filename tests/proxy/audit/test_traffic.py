"""Traffic sums match the exchanges after every batch, after a deletion and after the migration."""

import random
from collections import Counter
from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from proxy.audit.bulk_insert import insert_batch
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
    Span,
    TrafficSum,
    TrafficTime,
)
from tests.support.journal_entries import NOW, random_entry

fill = import_module("proxy.migrations.0005_traffic").fill


def total(numbers):
    """The sum of the known numbers; None if none is known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def expected():
    """The sums and counts, computed from the stored exchanges."""
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
            len(group),
            len([row for row in group if row.outcome in FAILURES]),
            len([row for row in group if row.outcome == "client_error"]),
            len([row for row in group if row.outcome == "client_disconnect"]),
            sum(row.tool_calls for row in group),
            sum(row.rescued_calls for row in group),
            len([row for row in group if row.rescued_calls]),
            len([row for row in group if row.leaked_format]),
            total(row.input_tokens for row in group),
            total(row.output_tokens for row in group),
            total(row.cache_read_tokens for row in group),
        )
        for key, group in rows.items()
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
def test_the_sums_match_the_exchanges(seed):
    chance = random.Random(seed)
    GatewaySettings.objects.create(pk=1, exchange_days=90)
    for size in (1, 7, 150, 40):
        insert_batch([random_entry(chance) for _ in range(size)])
        assert stored() == expected()
    prune(now=NOW)
    assert Exchange.objects.count() < 198
    assert stored() == expected()
    Exchange.objects.filter(outcome="crashed").delete()  # the migration is from before this outcome
    TrafficSum.objects.all().delete()
    TrafficTime.objects.all().delete()
    fill(apps, None)
    assert stored() == expected()


@pytest.mark.django_db
def test_a_refused_row_is_not_in_the_sums(monkeypatch):
    monkeypatch.setattr("proxy.audit.recorder.renew_connection", lambda: None)
    audit, chance = AuditRecorder(), random.Random(1)
    for number in range(5):
        audit.add(random_entry(chance, status=None if number == 2 else 200))
    audit._write_all()
    assert (audit.pending, audit.dropped) == (0, 1)
    assert Exchange.objects.count() == 4
    assert stored() == expected()


@pytest.mark.django_db
@pytest.mark.parametrize("size", [1, 200])
def test_a_batch_of_any_size_is_added_in_two_statements(size):
    chance = random.Random(1)
    with CaptureQueriesContext(connection) as queries:
        insert_batch([random_entry(chance) for _ in range(size)])
    assert len([query for query in queries.captured_queries if "ON CONFLICT" in query["sql"]]) == 2


@pytest.mark.parametrize("share", [0.01, 0.5, 0.95, 0.99, 1])
@pytest.mark.parametrize("seed", range(3))
def test_a_percentile_is_exact_up_to_one_bucket(seed, share):
    chance = random.Random(seed)
    durations = sorted(chance.lognormvariate(6, 1.5) for _ in range(2000))
    estimate = percentile(Counter(map(bucket_of, durations)), share)
    exact = durations[max(0, round(len(durations) * share) - 1)]
    assert exact / 1.1 < estimate < exact * 1.1


def test_percentiles_of_extreme_values():
    assert percentile({}, 0.5) is None
    assert percentile({3: 0}, 0.5) is None
    assert bucket_of(0) == bucket_of(-1) == -80
    assert [bucket_of(2.0**n) for n in (0, 1, 10)] == [0, 8, 80]
    assert percentile({80: 1}, 1) == pytest.approx(1024 * 2 ** (1 / 8))


def test_the_table_has_a_column_for_every_sum():
    columns = {field.name for field in TrafficSum._meta.get_fields()}
    assert columns == {"id", "span", "facet", "start", "value", *SUMS}
