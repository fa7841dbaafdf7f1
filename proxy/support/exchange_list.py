"""The audit list: filters of a URL → one page of exchanges.

A page costs the same at a hundred rows and at millions: rows are in the order of their ids, a page
begins after an id, no rows are counted, and every filter is one that an index serves. A range of
time becomes a range of ids first, as ids grow with the end of an exchange.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_datetime

from proxy.models import FAILURES, Exchange, Outcome

PAGE = 50
_LONGEST = timedelta(hours=1)
"""No exchange takes longer, so that ids are in the order of time but for this much."""
_FIELDS = {
    "outcome": "outcome",
    "format": "format",
    "model": "model",
    "upstream": "upstream",
    "served_by": "served_by",
    "key": "key",
    "code": "error_code",
    "leaked": "leaked_format",
    "group": "group",
}
FILTERS = (*_FIELDS, "rescued", "since", "until")
FAILED, ANY, NONE = "failed", "any", "none"
LEAKS = ("deepseek", "glm", "harmony", "kimi", "llama", "minimax", "mistral", "qwen")
RANGES = {
    "1h": timedelta(hours=1),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "90d": timedelta(days=90),
}
_MAY_BE_EMPTY = ("format", "model", "upstream", "served_by")


class BadFilter(Exception):
    """A filter that cannot be understood; the message says which."""


@dataclass(frozen=True, slots=True)
class Page:
    rows: list[Exchange]
    older: int | None
    """The id before which the next page begins."""
    newer: int | None


def filtered(query: Mapping[str, str], now: datetime) -> "QuerySet[Exchange]":
    """The exchanges that the filters let through, unordered; raises BadFilter."""
    rows = Exchange.objects.all()
    for name, field in _FIELDS.items():
        value = query.get(name, "").strip()
        if not value:
            continue
        if "\0" in value:  # PostgreSQL takes none
            raise BadFilter(f"{name}: {value[:40]!r} is no {name}")
        if name == "outcome" and value == FAILED:
            rows = rows.filter(outcome__in=FAILURES)
        elif name == "outcome" and value not in Outcome.values:
            raise BadFilter(f"outcome: {value[:40]!r} is none of {', '.join(Outcome.values)}")
        elif name == "leaked" and value == ANY:
            rows = rows.filter(leaked_format__in=LEAKS)
        elif name in _MAY_BE_EMPTY and value == NONE:
            rows = rows.filter(**{field: ""})
        elif name in ("key", "group"):
            rows = rows.filter(**{field: _number(name, value)})
        elif name in _MAY_BE_EMPTY and _is_quoted(value):
            rows = rows.filter(**{field: value[1:-1]})
        else:
            rows = rows.filter(**{field: value})
    if rescued := query.get("rescued", "").strip():
        if rescued != ANY:
            raise BadFilter(f"rescued: {rescued[:40]!r} is not {ANY}")
        rows = rows.filter(rescued_calls__gt=0)
    return rows.filter(within(query, now))


def exactly(value: str) -> str:
    """The filter for a value that may be anything, a client's name for a model."""
    if not value:
        return NONE
    is_plain = value == value.strip() and value != NONE and not _is_quoted(value)
    return value if is_plain else f'"{value}"'


def page_of(rows: "QuerySet[Exchange]", query: Mapping[str, str]) -> Page:
    """The page before or after an id; without one, the newest."""
    before, after = query.get("before", ""), query.get("after", "")
    if after:
        ordered = rows.filter(id__gt=_number("after", after)).order_by("id")
    elif before:
        ordered = rows.filter(id__lt=_number("before", before)).order_by("-id")
    else:
        ordered = rows.order_by("-id")
    # Ids first: sorting whole rows, where it must be, is what would be slow.
    ids = list(ordered.values_list("id", flat=True)[: PAGE + 1])
    is_more, ids = len(ids) > PAGE, sorted(ids[:PAGE], reverse=True)
    found = list(Exchange.objects.filter(id__in=ids).select_related("key").order_by("-id"))
    has_older = is_more if not after else True
    has_newer = is_more if after else bool(before)
    return Page(
        found,
        older=ids[-1] if ids and has_older else None,
        newer=ids[0] if ids and has_newer else None,
    )


def within(query: Mapping[str, str], now: datetime) -> Q:
    """The range of time that `since` and `until` give, and the range of ids that it is in."""
    since, until = _moment(query, "since", now), _moment(query, "until", now)
    wanted = Q()
    by_time = Exchange.objects.order_by("created_at").values_list("id", flat=True)
    if since:
        wanted &= Q(created_at__gte=since)
        earlier = by_time.filter(created_at__lt=since - _LONGEST).reverse().first()
        wanted &= Q(id__gt=earlier) if earlier else Q()
    if until:
        wanted &= Q(created_at__lt=until)
        later = by_time.filter(created_at__gte=until + _LONGEST).first()
        wanted &= Q(id__lt=later) if later else Q()
    return wanted


def _moment(query: Mapping[str, str], name: str, now: datetime) -> datetime | None:
    value = query.get(name, "").strip()
    if not value:
        return None
    if value in RANGES:
        return now - RANGES[value]
    try:
        moment = parse_datetime(value)
    except ValueError:
        moment = None
    if moment is None:
        raise BadFilter(f"{name}: {value[:40]!r} is no time; write 24h, 7d or 2026-01-31T12:00")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _is_quoted(value: str) -> bool:
    """Whether it is meant as it stands, whatever is between the quotes."""
    return len(value) > 1 and value[0] == value[-1] == '"'


def _number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 19):
        raise BadFilter(f"{name}: {value[:40]!r} is no number")
    return int(value)
