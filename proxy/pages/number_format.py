"""Numbers as the dashboard shows them: short, never more exact than they are, each with its rows.

What is not known is a dash, and so is a share of nothing.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cache

from django.urls import reverse
from django.utils.http import urlencode

DASH = "–"
_SCALES = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "k"))


@dataclass(frozen=True, slots=True)
class Figure:
    text: str
    href: str = ""
    title: str = ""


def rows_url(since: datetime, until: datetime | None = None, /, **filters: str) -> str:
    """The audit list of a range of time."""
    query = {**filters, "since": _moment(since)}
    if until is not None:
        query["until"] = _moment(until)
    return f"{_list_url()}?{urlencode(query)}"


def counted(count: int, href: str, words: str = "", *, one: str = "") -> Figure:
    """A number of rows, `one` in words if it is one; where none is, there is nothing to see."""
    told = one if one and count == 1 else words
    return Figure(f"{count:,} {told}".strip(), href if count else "")


def share(count: int, of: int, href: str) -> Figure:
    if not of:
        return Figure(DASH)
    return Figure(percent(count / of), href if count else "", f"{count:,} of {of:,}")


def told(count: int | None, href: str, words: str = "") -> Figure:
    """A number of tokens."""
    if count is None:
        return Figure(f"{DASH} {words}".strip(), "", "No upstream told any.")
    return Figure(f"{short(count)} {words}".strip(), href, f"{count:,}")


def took(milliseconds: float | None, href: str, words: str = "") -> Figure:
    if milliseconds is None:
        return Figure(f"{words} {DASH}".strip())
    return Figure(f"{words} {about(milliseconds)}".strip(), href)


def percent(rate: float) -> str:
    """In two digits; what is not quite nothing, or not quite all, does not look so."""
    hundredth = rate * 100
    if rate in (0, 1):
        return f"{hundredth:.0f} %"
    if hundredth < 0.01:
        return "< 0.01 %"
    if hundredth > 99.9:
        return "> 99.9 %"
    digits = 2 if hundredth < 0.1 else 1
    return f"{hundredth:.{digits}f} %"


def about(milliseconds: float) -> str:
    """In two digits: a percentile is hardly more exact."""
    if not milliseconds:
        return "0"
    value, unit = (milliseconds / 1000, "s") if milliseconds >= 995 else (milliseconds, "ms")
    if value >= 9.95:
        return f"{float(f'{value:.2g}'):.0f} {unit}"
    return f"{value:.1f} {unit}"


def short(count: float) -> str:
    """In three digits, or all of them if there are few."""
    for scale, letter in _SCALES:
        if count >= scale * (10 if letter == "k" else 0.9995):
            return f"{float(f'{count / scale:.3g}'):g} {letter}"
    return f"{count:,.0f}"


@cache
def _list_url() -> str:
    return reverse("audit:list")


def _moment(moment: datetime) -> str:
    return moment.isoformat(timespec="minutes").removesuffix("+00:00")
