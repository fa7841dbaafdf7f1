"""Help texts that state a number's allowed range and default, with bytes also in KiB and MiB."""

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator

_UNITS = ("bytes", "KiB", "MiB", "GiB")
_COLUMN_MAX = 2**31 - 1
"""The largest number that the column holds, which Django adds as a validator of its own."""


def range_hint(field: Any) -> str:
    """The range and the default in words; empty for a share from 0 to 1, or without a range."""
    limits = [(type(v), v.limit_value) for v in field.validators if hasattr(v, "limit_value")]
    low = max((limit for kind, limit in limits if kind is MinValueValidator), default=None)
    high = min((limit for kind, limit in limits if kind is MaxValueValidator), default=None)
    if low is None or high is None or high >= _COLUMN_MAX or (low, high) == (0, 1):
        return ""
    is_bytes = field.name.endswith("_bytes")
    words = f"From {_format(low, is_bytes)} to {_format(high, is_bytes)}"
    default: Any = field.get_default()
    if default is None:
        return f"{words}."
    return f"{words}; default {_format(default, is_bytes)}."


def _format(number: float, is_bytes: bool) -> str:
    """The number as it is typed into the form, without thousands separators."""
    if not is_bytes:
        return f"{number:.12g}"
    size, unit = float(number), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{number} ({size:.4g} {_UNITS[unit]})"
