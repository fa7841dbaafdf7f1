"""Reads and checks the sources of the settings: a `.env` file, a Redis URL, a secret key file.

Error messages name the variable but never show its value, which may be a secret.
"""

import re
from pathlib import Path
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

_ENV_LINE = re.compile(r"\s*(?:#.*|(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*=.*)?")
_VARIABLE_NAME = re.compile(r"\s*(?:export\s+)?([A-Z][A-Z0-9_]{0,99})\s*[=:]")


def read_env_file(path: Path) -> None:
    """Load a `.env` file into the environment; raises on a line that is not `NAME=value`."""
    if path.exists():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not _ENV_LINE.fullmatch(line):
                name = _VARIABLE_NAME.match(line)
                variable = f" ({name[1]})" if name else ""
                raise ImproperlyConfigured(f"line {number} of .env{variable} is not NAME=value")
        environ.Env.read_env(path, parse_comments=True)


def redis_url(url: str) -> str:
    """Return the URL unchanged, or raise if it is not a usable Redis URL."""
    if not url:
        return ""
    if not url.startswith(("redis://", "rediss://")):
        raise ImproperlyConfigured("REDIS_URL must start with redis:// or rediss://")
    if not _is_redis_address(url):
        raise ImproperlyConfigured(
            "REDIS_URL must look like redis://:password@host:port/number"
            " (in a password, write # / ? @ as %23 %2F %3F %40)"
        )
    return url


def _is_redis_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    # Anything else after the port is the rest of a password that contains `#`, `/` or `?`.
    return (
        has_host
        and not re.search(r"\s", url)
        and not parts.fragment
        and re.fullmatch(r"/?[0-9]{0,4}", parts.path) is not None
        and re.fullmatch(r"(?:[a-z_]+=[^@&]*&?)*+", parts.query) is not None
    )
