"""Exchanges → rows, in batches, off the hot path.

What is to be kept is decided and redacted when an exchange ends; a thread writes it a moment later.
The queue is bounded: when the database is away for long, rows are dropped and counted, and traffic
goes on.
"""

import asyncio
import logging
import random
import re
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any

from django.db import DatabaseError, close_old_connections, transaction
from django.db.models import F

from proxy import models
from proxy.exchange import Exchange
from proxy.models import FAILURES, FailureGroup, FailureHour, GroupState
from proxy.transcript import transcript_fields

logger = logging.getLogger("athena.audit")

_INTERVAL = 1.0
_BATCH = 500
_MOST_WAITING = 20_000
_FAMILY = re.compile(r"(?:[^/]*/)?[A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Entry:
    exchange: dict[str, Any]
    transcript: dict[str, Any] | None
    fingerprint: str | None


class Audit:
    def __init__(self) -> None:
        self.dropped = 0
        self._waiting: deque[Entry] = deque()
        self._kept: Counter[str] = Counter()  # transcripts of failures in this hour
        self._hour = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="audit")

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def submit(self, exchange: Exchange, status: int) -> None:
        """Remember an exchange that has ended."""
        exchange.log(status)
        if exchange.snapshot is None:
            return
        if len(self._waiting) >= _MOST_WAITING:
            self.dropped += 1
            return
        mark = fingerprint(exchange) if exchange.outcome in FAILURES else None
        kept = transcript_fields(exchange) if self._keeps(exchange, mark) else None
        self._waiting.append(Entry(_row(exchange, status), kept, mark))

    async def run(self) -> None:
        """Write what is waiting, every second, until cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL)
            await self.flush()

    async def flush(self) -> None:
        """Write all that is waiting now, as far as the database takes it."""
        if self._waiting:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._write_all)

    def _keeps(self, exchange: Exchange, mark: str | None) -> bool:
        """Whether the transcript is worth keeping, and may be kept."""
        if exchange.capture is None or exchange.snapshot is None:
            return False
        sampling, route = exchange.snapshot.sampling, exchange.route
        if mark is not None:
            hour = int(exchange.created_at.timestamp()) // 3600
            if hour != self._hour:
                self._hour = hour
                self._kept.clear()
            self._kept[mark] += 1
            return self._kept[mark] <= sampling.failures_per_hour
        if exchange.leaked_format:
            return True
        share = route.sample_calls if exchange.calls and route else sampling.sample_others
        return random.random() < share  # noqa: S311  no secret depends on it

    def _write_all(self) -> None:
        close_old_connections()
        while self._waiting:
            batch = [self._waiting[at] for at in range(min(_BATCH, len(self._waiting)))]
            try:
                write(batch)
            except DatabaseError as error:
                logger.warning("%d exchanges wait for the database: %s", self.waiting, error)
                return
            for _ in batch:
                self._waiting.popleft()


@transaction.atomic
def write(batch: list[Entry]) -> None:
    """Save a batch: all of it or nothing."""
    groups = _groups(batch)
    rows = models.Exchange.objects.bulk_create(
        models.Exchange(**entry.exchange, group=groups.get(entry.fingerprint or ""))
        for entry in batch
    )
    models.Transcript.objects.bulk_create(
        models.Transcript(exchange=row, **entry.transcript)
        for row, entry in zip(rows, batch, strict=True)
        if entry.transcript is not None
    )


def _groups(batch: list[Entry]) -> dict[str, FailureGroup]:
    """The groups of the batch's failures, with these counted."""
    failures = [entry for entry in batch if entry.fingerprint]
    found: dict[str, FailureGroup] = {}
    for entry in failures:
        mark, row = entry.fingerprint or "", entry.exchange
        if mark not in found:
            found[mark], _ = FailureGroup.objects.get_or_create(
                fingerprint=mark,
                defaults={
                    "format": row["format"],
                    "error_code": row["error_code"],
                    "phase": row["error_phase"],
                    "family": family(row["upstream_model"] or row["model"]),
                    "first_seen": row["created_at"],
                    "last_seen": row["created_at"],
                },
            )
        group = found[mark]
        group.last_seen = max(group.last_seen, row["created_at"])
        if group.state == GroupState.RESOLVED:
            group.state = GroupState.REGRESSED
        hour = row["created_at"].replace(minute=0, second=0, microsecond=0)
        bucket, _ = FailureHour.objects.get_or_create(group=group, hour=hour)
        FailureHour.objects.filter(pk=bucket.pk).update(count=F("count") + 1)
    for mark, number in Counter(entry.fingerprint or "" for entry in failures).items():
        group = found[mark]
        FailureGroup.objects.filter(pk=group.pk).update(
            count=F("count") + number, last_seen=group.last_seen, state=group.state
        )
    return found


def fingerprint(exchange: Exchange) -> str:
    """What makes two failures one kind."""
    route, error = exchange.route, exchange.error
    model = route.model if route else exchange.model
    code = error.code if error else ""
    format_name = route.format.format if route else ""
    return f"{format_name}|{code}|{exchange.phase}|{family(model)}"[:200]


def family(model: str) -> str:
    """A model's name without its version: `moonshotai/kimi` of `moonshotai/kimi-k2.5`."""
    found = _FAMILY.match(model)
    return (found[0] if found else model)[:120]


def prune(now: datetime | None = None, *, batch: int = 1000) -> dict[str, int]:
    """Delete what is older than the gateway's settings say, in small batches."""
    moment = now or datetime.now(UTC)
    settings = models.GatewaySettings.objects.get(pk=1)
    oldest = {
        models.Transcript: ("exchange__created_at", settings.transcript_days),
        models.Exchange: ("created_at", settings.exchange_days),
    }
    deleted: dict[str, int] = {}
    for model, (field, days) in oldest.items():
        old = model._default_manager.filter(**{f"{field}__lt": moment - timedelta(days=days)})
        count = 0
        while keys := list(old.values_list("pk", flat=True)[:batch]):
            model._default_manager.filter(pk__in=keys).delete()
            count += len(keys)
        deleted[model.__name__.lower()] = count
    hours = FailureHour.objects.filter(hour__lt=moment - timedelta(days=settings.exchange_days))
    deleted["failurehour"] = hours.delete()[0]
    return deleted


def _row(exchange: Exchange, status: int) -> dict[str, Any]:
    route, error, usage = exchange.route, exchange.error, exchange.usage
    snapshot = exchange.snapshot
    return {
        "request_id": exchange.request_id,
        "created_at": exchange.created_at,
        "key_id": exchange.key.id if exchange.key else None,
        "user_agent": exchange.headers.get("user-agent", "")[:200],
        "session_id": exchange.headers.get("x-claude-code-session-id", "")[:80],
        "dialect": exchange.dialect,
        "model": exchange.model[:200],
        "route": route.pattern if route else "",
        "upstream": route.upstream.name if route else "",
        "upstream_model": route.model[:200] if route else "",
        "served_by": (exchange.served_by or "")[:100],
        "format": route.format.format if route else "",
        "format_reason": route.format.reason if route else "",
        "is_streaming": exchange.is_streaming,
        "status": status,
        "outcome": exchange.outcome,
        "error_code": error.code if error else "",
        "error_source": error.source if error else "",
        "error_phase": exchange.phase if error else "",
        "error_message": str(error)[:500] if error else "",
        "stop_reason": exchange.stop_reason or "",
        "tool_calls": exchange.calls,
        "rescued_calls": exchange.rescued,
        "notices": [[n.code, n.detail[:200], count] for n, count in exchange.notices.items()][:50],
        "leaked_format": exchange.leaked_format,
        "attempts": [
            [tried.upstream.name, tried.model, failed.code, str(failed)[:200]]
            for tried, failed in exchange.attempts
        ],
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_creation_tokens": usage.cache_creation,
        "input_estimate": exchange.input_estimate,
        "first_byte_ms": _ms(exchange.first_byte),
        "duration_ms": _ms(perf_counter() - exchange.started),
        "gateway_ms": _ms(exchange.own_time),
        "bytes_in": exchange.bytes_in,
        "bytes_upstream": exchange.bytes_upstream,
        "bytes_out": exchange.bytes_out,
        "configuration_version": snapshot.version if snapshot else 0,
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
