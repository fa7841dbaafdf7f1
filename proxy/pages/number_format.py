"""Numbers as the dashboard shows them: two or three digits, a unit, and a link to their exchanges.

An unknown number is shown as a dash, and so is a percentage of zero requests.
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
    """A formatted number, the link to the exchanges it counts, and its tooltip."""

    text: str
    href: str = ""
    title: str = ""


def audit_url(since: datetime, until: datetime | None = None, /, **filters: str) -> str:
    """Return the URL of the audit list for a time range."""
    query = {**filters, "since": _minute(since)}
    if until is not None:
        query["until"] = _minute(until)
    return f"{_audit_list_url()}?{urlencode(query)}"


def count_figure(count: int, href: str, label: str = "", *, singular: str = "") -> Figure:
    """Show a count, linked unless it is zero."""
    noun = singular if singular and count == 1 else label
    return Figure(f"{count:,} {noun}".strip(), href if count else "")


def share_figure(count: int, total: int, href: str) -> Figure:
    """Show a count as a percentage of a total, with both numbers as the tooltip."""
    if not total:
        return Figure(DASH)
    return Figure(format_percent(count / total), href if count else "", f"{count:,} of {total:,}")


def tokens_figure(count: int | None, href: str, label: str = "") -> Figure:
    """Show a token count, with the exact number as the tooltip."""
    if count is None:
        return Figure(f"{DASH} {label}".strip(), "", "No upstream reported token usage.")
    return Figure(f"{format_count(count)} {label}".strip(), href, f"{count:,}")


def duration_figure(milliseconds: float | None, href: str, label: str = "") -> Figure:
    if milliseconds is None:
        return Figure(f"{label} {DASH}".strip())
    return Figure(f"{label} {format_duration(milliseconds)}".strip(), href)


def format_percent(rate: float) -> str:
    """Format a rate; one close to 0 or 1 never rounds to 0 % or 100 %."""
    percent = rate * 100
    if rate in (0, 1):
        return f"{percent:.0f} %"
    if percent < 0.01:
        return "< 0.01 %"
    if percent > 99.9:
        return "> 99.9 %"
    digits = 2 if percent < 0.1 else 1
    return f"{percent:.{digits}f} %"


def format_duration(milliseconds: float) -> str:
    """Format a duration with two digits: percentiles are hardly more exact than that."""
    if not milliseconds:
        return "0"
    value, unit = (milliseconds / 1000, "s") if milliseconds >= 995 else (milliseconds, "ms")
    if value >= 9.95:
        return f"{float(f'{value:.2g}'):.0f} {unit}"
    return f"{value:.1f} {unit}"


def format_count(count: float) -> str:
    """Format a count with three digits and a unit, or in full below 10,000."""
    for scale, letter in _SCALES:
        if count >= scale * (10 if letter == "k" else 0.9995):
            return f"{float(f'{count / scale:.3g}'):g} {letter}"
    return f"{count:,.0f}"


@cache
def _audit_list_url() -> str:
    return reverse("audit:list")


def _minute(moment: datetime) -> str:
    return moment.isoformat(timespec="minutes").removesuffix("+00:00")
