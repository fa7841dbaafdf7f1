"""Adds the traffic sums, computed from the existing exchanges, and the table of processes.

A million exchanges take a minute or two. Exchanges that a process of the older version writes during
the upgrade are in the list of exchanges, but not in the sums.
"""

import math
from collections.abc import Iterable
from datetime import UTC
from itertools import islice
from typing import Any

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import Count, F, FloatField, Q, Sum, Value
from django.db.models.functions import Concat, Floor, Greatest, Ln, Now, TruncDay, TruncHour

BATCH = 1000
FAILURES = ("upstream_error", "transform_failed", "timeout", "gateway_error")
FACETS: dict[str, Any] = {
    "all": Value(""),
    "model": F("model"),
    "format": F("format"),
    "served_by": Concat("upstream", Value(" "), "served_by"),
}
SUMS: dict[str, Any] = {
    "requests": Count("pk"),
    "failures": Count("pk", filter=Q(outcome__in=FAILURES)),
    "client_errors": Count("pk", filter=Q(outcome="client_error")),
    "disconnects": Count("pk", filter=Q(outcome="client_disconnect")),
    "calls": Sum("tool_calls"),
    "calls_rescued": Sum("rescued_calls"),
    "rescued": Count("pk", filter=Q(rescued_calls__gt=0)),
    "leaked": Count("pk", filter=~Q(leaked_format="")),
    "tokens_in": Sum("input_tokens"),
    "tokens_out": Sum("output_tokens"),
    "tokens_cached": Sum("cache_read_tokens"),
}
MEASURES = {"first_byte": "first_byte_ms", "gateway": "gateway_ms"}


def fill(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    exchanges = apps.get_model("proxy", "Exchange").objects.order_by()
    sums = apps.get_model("proxy", "TrafficSum").objects
    times = apps.get_model("proxy", "TrafficTime").objects
    by_hour = exchanges.annotate(start=TruncHour("created_at", tzinfo=UTC))
    for facet, value in FACETS.items():
        rows = by_hour.annotate(value=value).values("start", "value").annotate(**SUMS)
        _save(sums, ({"span": "hour", "facet": facet, **row} for row in rows.iterator()))
    for measure, field in MEASURES.items():
        # As `proxy.audit.traffic.histogram` has it.
        took = Greatest(F(field), 2.0**-10, output_field=FloatField())
        answered = by_hour.filter(outcome="ok") if measure == "first_byte" else by_hour
        counted = answered.filter(**{f"{field}__isnull": False}).annotate(
            bucket=Floor(Ln(took) / math.log(2) * 8)
        )
        counts = counted.values("start", "bucket").annotate(count=Count("pk"))
        _save(times, ({"span": "hour", "measure": measure, **row} for row in counts.iterator()))
    _sum_days(sums, ("facet", "value"), tuple(SUMS))
    _sum_days(times, ("measure", "bucket"), ("count",))


def _sum_days(rows: Any, keys: tuple[str, ...], names: tuple[str, ...]) -> None:
    days = rows.order_by().annotate(day=TruncDay("start", tzinfo=UTC)).values("day", *keys)
    added = days.annotate(**{f"day_{name}": Sum(name) for name in names})
    _save(
        rows,
        (
            {
                "span": "day",
                "start": row["day"],
                **{key: row[key] for key in keys},
                **{name: row[f"day_{name}"] for name in names},
            }
            for row in list(added)  # while they are read, none may be added
        ),
    )


def _save(rows: Any, fields: Iterable[dict[str, Any]]) -> None:
    made = (rows.model(**row) for row in fields)
    while batch := list(islice(made, BATCH)):
        rows.bulk_create(batch)


class Migration(migrations.Migration):
    dependencies = [("proxy", "0004_first_records")]
    operations = [
        migrations.CreateModel(
            name="GatewayProcess",
            fields=[
                ("token", models.CharField(max_length=16, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=100)),
                ("started_at", models.DateTimeField(db_default=Now())),
                ("seen_at", models.DateTimeField(db_default=Now())),
                ("configuration_version", models.PositiveBigIntegerField(null=True)),
                ("open_streams", models.PositiveIntegerField()),
                ("audit_waiting", models.PositiveIntegerField()),
                ("audit_dropped", models.PositiveBigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="TrafficSum",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("span", models.CharField(choices=[("hour", "hour"), ("day", "day")], max_length=4)),
                ("facet", models.CharField(choices=[("all", "nothing"), ("model", "the model that was asked for"), ("format", "the format of the answer"), ("served_by", "who answered")], max_length=10)),
                ("start", models.DateTimeField()),
                ("value", models.CharField(blank=True, max_length=200)),
                ("requests", models.PositiveBigIntegerField()),
                ("failures", models.PositiveBigIntegerField()),
                ("client_errors", models.PositiveBigIntegerField()),
                ("disconnects", models.PositiveBigIntegerField()),
                ("calls", models.PositiveBigIntegerField()),
                ("calls_rescued", models.PositiveBigIntegerField()),
                ("rescued", models.PositiveBigIntegerField()),
                ("leaked", models.PositiveBigIntegerField()),
                ("tokens_in", models.PositiveBigIntegerField(null=True)),
                ("tokens_out", models.PositiveBigIntegerField(null=True)),
                ("tokens_cached", models.PositiveBigIntegerField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["start"], name="proxy_traff_start_6c7f83_idx")],
                "constraints": [models.UniqueConstraint(fields=("span", "facet", "start", "value"), name="traffic_sum_is_one_row")],
            },
        ),
        migrations.CreateModel(
            name="TrafficTime",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("span", models.CharField(choices=[("hour", "hour"), ("day", "day")], max_length=4)),
                ("measure", models.CharField(choices=[("first_byte", "time to the first byte"), ("gateway", "the gateway's own time")], max_length=10)),
                ("start", models.DateTimeField()),
                ("bucket", models.SmallIntegerField()),
                ("count", models.PositiveBigIntegerField()),
            ],
            options={
                "indexes": [models.Index(fields=["start"], name="proxy_traff_start_997a0c_idx")],
                "constraints": [models.UniqueConstraint(fields=("span", "measure", "start", "bucket"), name="traffic_time_is_one_row")],
            },
        ),
        migrations.AddIndex(
            model_name="exchange",
            index=models.Index(fields=["served_by", "-id"], name="proxy_excha_served__e629ed_idx"),
        ),
        migrations.AddIndex(
            model_name="exchange",
            index=models.Index(condition=models.Q(("rescued_calls__gt", 0)), fields=["-id"], name="exchange_rescued"),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
