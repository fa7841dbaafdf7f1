"""Fills the database with rows like those of months of traffic: few models, few failures."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from random import Random
from typing import Any

from django.apps import apps
from django.db import connection

from proxy.audit.failure_groups import model_family
from proxy.audit.transcripts.codec import TranscriptContent, pack
from proxy.models import (
    FAILURES,
    ClientKey,
    Exchange,
    FailureGroup,
    FailureHour,
    GatewaySettings,
    GroupState,
    Outcome,
    Transcript,
)

DAYS = 80
KEYS = 200
_BATCH = 20_000
_EXCHANGES_PER_TRANSCRIPT = 200
_ANSWER = Random(1).randbytes(10_000)  # incompressible
_UPSTREAMS = ("openrouter", "vllm", "anthropic", "moonshot")
_SERVERS = ("Parasail", "Fireworks", "Together", "DeepInfra", "Novita", "Moonshot AI")
_OUTCOMES = {
    Outcome.OK: 9500,
    Outcome.CLIENT_ERROR: 170,
    Outcome.UPSTREAM_ERROR: 150,
    Outcome.CLIENT_DISCONNECT: 100,
    Outcome.TRANSFORM_FAILED: 40,
    Outcome.TIMEOUT: 30,
    Outcome.DRAINED: 9,
    Outcome.GATEWAY_ERROR: 1,
}
_CODES: dict[str, tuple[str, ...]] = {
    Outcome.CLIENT_ERROR: ("invalid_request", "prompt_too_long", "model_not_allowed"),
    Outcome.UPSTREAM_ERROR: ("upstream_rate_limit", "upstream_overloaded", "upstream_error"),
    Outcome.TRANSFORM_FAILED: ("call_truncated", "call_invalid_json", "transformation_failed"),
    Outcome.TIMEOUT: ("upstream_idle", "first_byte_timeout"),
    Outcome.DRAINED: ("draining",),
    Outcome.GATEWAY_ERROR: ("internal_error",),
    Outcome.CRASHED: ("worker_lost",),
}
_VENDORS = {
    "moonshotai/kimi-k": "kimi",
    "qwen/qwen": "qwen",
    "deepseek/deepseek-v": "deepseek",
    "vendor/plain-": "auto",
    "z-ai/glm-": "glm",
}
MODELS = [f"{vendor}{number}" for number in range(1, 13) for vendor in _VENDORS]
"""Most requested first."""
_COLUMNS = [str(field.column) for field in Exchange._meta.concrete_fields if not field.primary_key]


def seed(count: int, now: datetime) -> None:
    """Fill empty tables; ids are in the order of time."""
    random = Random(1)
    GatewaySettings.objects.create(pk=1)
    ClientKey.objects.bulk_create(
        ClientKey(label=f"key {number}", prefix="sk-bench", digest=f"{number:064x}")
        for number in range(KEYS)
    )
    groups = _groups(now)
    keys = list(ClientKey.objects.values_list("pk", flat=True))
    rows = _rows(random, count, now, keys, groups)
    while batch := [row for _, row in zip(range(_BATCH), rows, strict=False)]:
        _insert(batch)
    sampled = list(
        Exchange.objects.order_by("id").values_list("pk", flat=True)[::_EXCHANGES_PER_TRANSCRIPT]
    )
    content = pack(TranscriptContent(request="{}", raw=_ANSWER))
    Transcript.objects.bulk_create(
        (Transcript(exchange_id=pk, packed=content) for pk in sampled),
        batch_size=500,
    )


def add_up() -> None:
    """Fill the hourly sums, as the migration does."""
    import_module("proxy.migrations.0005_traffic").fill(apps, None)
    if connection.vendor == "postgresql":  # autovacuum would do it later; SQLite never does
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")


def _groups(now: datetime) -> dict[tuple[str, str], int]:
    """Create a failure group for every family of models and error code."""
    places = sorted(
        {(model_family(model), code) for model in MODELS for o in FAILURES for code in _CODES[o]}
    )
    rows = FailureGroup.objects.bulk_create(
        FailureGroup(
            fingerprint=f"{code}|{name}",
            format="kimi",
            error_code=code,
            phase="answer",
            family=name,
            count=number,
            first_seen=now - timedelta(days=DAYS),
            last_seen=now - timedelta(minutes=number),
            state=GroupState.values[number % 4],
        )
        for number, (name, code) in enumerate(places)
    )
    FailureHour.objects.bulk_create(
        FailureHour(group=row, hour=now - timedelta(hours=hour), count=hour % 7)
        for row in rows
        for hour in range(24 * 30)
    )
    return {place: row.pk for place, row in zip(places, rows, strict=True)}


def _rows(
    random: Random,
    count: int,
    now: datetime,
    keys: Sequence[int],
    groups: dict[tuple[str, str], int],
) -> Iterator[tuple[Any, ...]]:
    outcomes = random.choices(list(_OUTCOMES), list(_OUTCOMES.values()), k=count)
    models = random.choices(MODELS, [1 / (n + 1) for n in range(len(MODELS))], k=count)
    holders = random.choices(keys, [1 / (n + 1) for n in range(len(keys))], k=count)
    notices = json.dumps([["rescued", "get_weather", 1]])
    step = timedelta(days=DAYS) / count
    for number, (outcome, model, key) in enumerate(zip(outcomes, models, holders, strict=True)):
        name = model_family(model)
        form = next(f for vendor, f in _VENDORS.items() if model.startswith(vendor))
        code = random.choice(_CODES.get(outcome, ("",)))
        upstream = _UPSTREAMS[max(0, number % 11 - 7)]
        is_rescued = outcome is Outcome.OK and number % 3 == 0
        fields = {
            "request_id": f"req_{number:024x}",
            "created_at": (now - timedelta(days=DAYS) + step * number).astimezone(UTC),
            "key_id": key,
            "user_agent": "claude-cli/2.1.0 (external, cli)",
            "session_id": f"{key:08x}-0000-4000-8000-{number // 40:012x}",
            "dialect": "anthropic",
            "model": model,
            "route": "default",
            "upstream": upstream,
            "upstream_model": model,
            "served_by": random.choice(_SERVERS) if upstream == "openrouter" else "",
            "format": form,
            "format_reason": "detection",
            "is_streaming": number % 10 > 0,
            "status": 200 if outcome is Outcome.OK else 502,
            "outcome": outcome.value,
            "error_code": code,
            "error_source": "upstream" if code else "",
            "error_phase": "answer" if code else "",
            "error_message": "the upstream reported an error" if code else "",
            "stop_reason": "tool_use",
            "tool_calls": number % 3,
            "rescued_calls": int(is_rescued),
            "notices": notices if is_rescued else "[]",
            "leaked_format": "unknown" if form == "auto" and number % 5000 == 3 else "",
            "family_read": "kimi" if form == "auto" and is_rescued else None,
            "attempts": "[]",
            "input_tokens": 20_000 + number % 5000,
            "output_tokens": number % 700,
            "cache_read_tokens": 18_000,
            "cache_creation_tokens": None,
            "input_estimate": 21_000,
            "first_byte_ms": round(random.lognormvariate(6.7, 0.6), 3),
            "duration_ms": 4200.25,
            "gateway_ms": round(random.lognormvariate(0.7, 0.4), 3),
            "bytes_in": 62_000,
            "bytes_upstream": 41_000,
            "bytes_out": 52_000,
            "configuration_version": 1 + number // 50_000,
            "group_id": groups[name, code] if outcome in FAILURES else None,
        }
        yield tuple(fields[column] for column in _COLUMNS)


def _insert(rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows in the fastest way of the database."""
    columns = ", ".join(f'"{column}"' for column in _COLUMNS)
    table = Exchange._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        else:
            marks = ", ".join(["%s"] * len(_COLUMNS))
            adapt = connection.ops.adapt_datetimefield_value
            at = _COLUMNS.index("created_at")
            adapted = [(*row[:at], adapt(row[at]), *row[at + 1 :]) for row in rows]
            cursor.execute("BEGIN")
            statement = f"INSERT INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608
            cursor.executemany(statement, adapted)
            cursor.execute("COMMIT")
