"""The headers that an operator adds to an upstream's requests: names are shown, secrets are not.

Which of them carry a secret is told from their names. Their values leave the row only towards the
upstream: wherever else they would be shown or recorded, `[stored]` stands for them.
"""

import re
from typing import Any

STORED = "[stored]"
# Words in the names of headers that carry a secret; an operator may add any header.
_SECRET_WORDS = re.compile("auth|cookie|key|secret|token")


def carries_secret(name: str) -> bool:
    return _SECRET_WORDS.search(name.lower()) is not None


def concealed(headers: Any) -> Any:
    """The headers with `[stored]` for each secret. What is no object is left as it is."""
    if not isinstance(headers, dict):
        return headers
    return {name: STORED if carries_secret(name) else value for name, value in headers.items()}


def revealed(headers: Any, present: Any) -> Any:
    """The reverse: a secret's present value for `[stored]`. Without one its header is left out."""
    if not isinstance(headers, dict):
        return headers
    known = present if isinstance(present, dict) else {}
    values = {name.lower(): value for name, value in known.items()}
    return {
        name: values[name.lower()] if _is_concealed(name, value) else value
        for name, value in headers.items()
        if not _is_concealed(name, value) or name.lower() in values
    }


def unknown_secrets(headers: Any, present: Any) -> list[str]:
    """The headers of which `[stored]` was said, and nothing is."""
    return [name for name in headers if name not in revealed(headers, present)]


def _is_concealed(name: str, value: object) -> bool:
    return value == STORED and carries_secret(name)
