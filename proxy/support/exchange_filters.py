"""Filters of the exchange list: the query string of a URL becomes a database query.

An index serves every filter, so a filter costs the same at a hundred rows and at millions. A time
range becomes a range of ids as well, because ids are in the order in which exchanges end.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_datetime

from formats import AUTO, FORMATS, STANDARD, UNKNOWN_MARKUP
from proxy.models import FAILURES, Exchange, Outcome

_MAX_DURATION = timedelta(hours=1)
"""No exchange takes longer, so ids are in the order of time up to this much."""
_FIELDS = {
    "outcome": "outcome",
    "format": "format",
    "model": "model",
    "upstream": "upstream",
    "served_by": "served_by",
    "key": "key",
    "code": "error_code",
    "leaked": "leaked_format",
    "family_read": "family_read",
    "group": "group",
}
FILTERS = (*_FIELDS, "rescued", "since", "until")
FAILED, ANY, NONE = "failed", "any", "none"
LEAK_FORMATS = (
    "cohere",
    "deepseek",
    "gemma",
    "glm",
    "granite",
    "harmony",
    "internlm",
    "jamba",
    "kimi",
    "lfm",
    "llama",
    "longcat",
    "minimax",
    "mistral",
    "nemotron",
    "qwen",
    "seed",
    "step",
    UNKNOWN_MARKUP,
)
FAMILIES = tuple(sorted(FORMATS.keys() - {STANDARD, AUTO}))
TIME_RANGES = {
    "1h": timedelta(hours=1),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "90d": timedelta(days=90),
}
_MAY_BE_EMPTY = ("format", "model", "upstream", "served_by")


class BadFilter(Exception):
    """A filter is invalid. The message says which, and what is accepted."""


def filter_exchanges(query: Mapping[str, str], now: datetime) -> "QuerySet[Exchange]":
    """The exchanges that match all filters, unordered; raises BadFilter."""
    rows = Exchange.objects.all()
    for name, field in _FIELDS.items():
        value = query.get(name, "").strip()
        if not value:
            continue
        if "\0" in value:  # PostgreSQL rejects it
            raise BadFilter(f"{name}: {value[:40]!r} contains a NUL character")
        if name == "outcome" and value == FAILED:
            rows = rows.filter(outcome__in=FAILURES)
        elif name == "outcome" and value not in Outcome.values:
            raise BadFilter(f"outcome: {value[:40]!r} is not one of {', '.join(Outcome.values)}")
        elif name == "leaked" and value == ANY:
            rows = rows.filter(leaked_format__in=LEAK_FORMATS)
        elif name == "family_read" and value == ANY:
            rows = rows.filter(family_read__in=FAMILIES)
        elif name in _MAY_BE_EMPTY and value == NONE:
            rows = rows.filter(**{field: ""})
        elif name in ("key", "group"):
            rows = rows.filter(**{field: parse_number(name, value)})
        elif name in _MAY_BE_EMPTY and _is_quoted(value):
            rows = rows.filter(**{field: value[1:-1]})
        else:
            rows = rows.filter(**{field: value})
    if rescued := query.get("rescued", "").strip():
        if rescued != ANY:
            raise BadFilter(f"rescued: {rescued[:40]!r} is not {ANY!r}, the only accepted value")
        rows = rows.filter(rescued_calls__gt=0)
    return rows.filter(time_range_filter(query, now))


def exact_filter(value: str) -> str:
    """The filter text that matches exactly this value, even if it looks like a keyword."""
    if not value:
        return NONE
    is_plain = value == value.strip() and value != NONE and not _is_quoted(value)
    return value if is_plain else f'"{value}"'


def time_range_filter(query: Mapping[str, str], now: datetime) -> Q:
    """The condition for `since` and `until`: a range of times, and the range of ids it lies in."""
    since, until = _parse_time(query, "since", now), _parse_time(query, "until", now)
    condition = Q()
    by_time = Exchange.objects.order_by("created_at").values_list("id", flat=True)
    if since:
        condition &= Q(created_at__gte=since)
        earlier = by_time.filter(created_at__lt=since - _MAX_DURATION).reverse().first()
        condition &= Q(id__gt=earlier) if earlier else Q()
    if until:
        condition &= Q(created_at__lt=until)
        later = by_time.filter(created_at__gte=until + _MAX_DURATION).first()
        condition &= Q(id__lt=later) if later else Q()
    return condition


def _parse_time(query: Mapping[str, str], name: str, now: datetime) -> datetime | None:
    value = query.get(name, "").strip()
    if not value:
        return None
    if value in TIME_RANGES:
        return now - TIME_RANGES[value]
    try:
        time = parse_datetime(value)
    except ValueError:
        time = None
    if time is None:
        raise BadFilter(
            f"{name}: {value[:40]!r} is not a valid time. Try 24h, 7d or 2026-01-31T12:00"
        )
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _is_quoted(value: str) -> bool:
    return len(value) > 1 and value[0] == value[-1] == '"'


def parse_number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 19):
        raise BadFilter(f"{name}: {value[:40]!r} is not a number")
    return int(value)
