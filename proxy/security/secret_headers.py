"""Masks secret values in the extra headers of an upstream.

A header is secret if its name contains a word such as `key` or `token`. Its value is sent only to
the upstream; pages, API, exports and history show `[stored]` instead.
"""

import re
from typing import Any

STORED = "[stored]"
_SECRET_WORDS = re.compile("auth|cookie|key|secret|token")


def carries_secret(name: str) -> bool:
    return _SECRET_WORDS.search(name.lower()) is not None


def mask_secrets(headers: Any) -> Any:
    """Replace secret values by `[stored]`. Non-objects are returned unchanged."""
    if not isinstance(headers, dict):
        return headers
    return {name: STORED if carries_secret(name) else value for name, value in headers.items()}


def unmask_secrets(headers: Any, present: Any) -> Any:
    """Replace `[stored]` by the present value. Headers without one are left out."""
    if not isinstance(headers, dict):
        return headers
    known = present if isinstance(present, dict) else {}
    values = {name.lower(): value for name, value in known.items()}
    return {
        name: values[name.lower()] if _is_masked(name, value) else value
        for name, value in headers.items()
        if not _is_masked(name, value) or name.lower() in values
    }


def unresolved_secrets(headers: Any, present: Any) -> list[str]:
    """Return the headers that have the value `[stored]` but no present value."""
    return [name for name in headers if name not in unmask_secrets(headers, present)]


def _is_masked(name: str, value: object) -> bool:
    return value == STORED and carries_secret(name)
