"""Environment variables that may hold a key.

An operator names a variable, and the gateway sends its value to a server of the operator's choice.
Therefore only names of a list are read (`ATHENA_KEY_VARIABLES`), and never the gateway's own
variables, also if a name was stored before the list was shortened.
"""

import os
from fnmatch import fnmatchcase

from django.conf import settings

_OWN = ("ATHENA_*", "DATABASE_URL", "DJANGO_*", "PG*", "REDIS_URL", "SECRET_KEY")
# The key of an upstream, in spite of its name.
_UPSTREAM_KEYS = frozenset({"ATHENA_ANTHROPIC_API_KEY"})


def reason_against(name: str) -> str:
    """The reason why a variable may not be read; empty if it may."""
    if name not in _UPSTREAM_KEYS and any(fnmatchcase(name, own) for own in _OWN):
        return "is a variable of the gateway itself and cannot be used"
    if not any(fnmatchcase(name, pattern) for pattern in settings.KEY_VARIABLES):
        allowed = ", ".join(settings.KEY_VARIABLES)
        return f"may not hold a key. Allowed are {allowed}; ATHENA_KEY_VARIABLES can list more"
    return ""


def read_key_variable(name: str) -> str:
    """The value of a variable; empty if it is not set or may not be read."""
    return "" if reason_against(name) else os.environ.get(name, "")
