"""The bounds of a number, in words beside its box; bytes as people count them, too."""

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator

_UNITS = ("bytes", "KiB", "MiB", "GiB")
_COLUMN = 2**31 - 1
"""What a column takes in any case: no bound of the field's own."""


def bounds_of(field: Any) -> str:
    """From what to what, and what it is at first; empty for a share, or without bounds."""
    limits = [(type(v), v.limit_value) for v in field.validators if hasattr(v, "limit_value")]
    least = max((limit for kind, limit in limits if kind is MinValueValidator), default=None)
    most = min((limit for kind, limit in limits if kind is MaxValueValidator), default=None)
    if least is None or most is None or most >= _COLUMN or (least, most) == (0, 1):
        return ""
    is_bytes = field.name.endswith("_bytes")
    words = f"From {_told(least, is_bytes)} to {_told(most, is_bytes)}"
    first: Any = field.get_default()
    if first is None:
        return f"{words}."
    return f"{words}; at first {_told(first, is_bytes)}."


def _told(number: float, is_bytes: bool) -> str:
    """As it is typed, without commas."""
    if not is_bytes:
        return f"{number:.12g}"
    size, unit = float(number), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{number} ({size:.4g} {_UNITS[unit]})"
