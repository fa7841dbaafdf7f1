"""Pages of the exchange list: keyset pagination by id, newest first.

A page costs the same in a table of a hundred rows and of millions: it starts after an id, and no
rows are counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import QuerySet

from proxy.models import Exchange
from proxy.support.exchange_filters import parse_number

PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class ExchangePage:
    rows: list[Exchange]
    older: int | None
    """Id before which the next page starts."""
    newer: int | None


def get_page(rows: "QuerySet[Exchange]", query: Mapping[str, str]) -> ExchangePage:
    """The page `before` or `after` an id, otherwise the newest; raises BadFilter."""
    before, after = query.get("before", ""), query.get("after", "")
    if after:
        ordered = rows.filter(id__gt=parse_number("after", after)).order_by("id")
    elif before:
        ordered = rows.filter(id__lt=parse_number("before", before)).order_by("-id")
    else:
        ordered = rows.order_by("-id")
    # Ids first: sorting whole rows would be slow.
    ids = list(ordered.values_list("id", flat=True)[: PAGE_SIZE + 1])
    has_more, ids = len(ids) > PAGE_SIZE, sorted(ids[:PAGE_SIZE], reverse=True)
    page = list(Exchange.objects.filter(id__in=ids).select_related("key").order_by("-id"))
    has_older = has_more if not after else True
    has_newer = has_more if after else bool(before)
    return ExchangePage(
        page,
        older=ids[-1] if ids and has_older else None,
        newer=ids[0] if ids and has_newer else None,
    )
