"""What settings are read from: a `.env` file, addresses, a file that is made once.

Messages have a variable's name and never its value, which may be a secret.
"""

import os
import re
import secrets
from pathlib import Path
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

_LINE = re.compile(r"\s*(?:#.*|(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*=.*)?")

_NAME = re.compile(r"\s*(?:export\s+)?([A-Z][A-Z0-9_]{0,99})\s*[=:]")


def read_env_file(path: Path) -> None:
    """Take a `.env` file into the environment; a line that is none of its kind is refused."""
    if path.exists():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not _LINE.fullmatch(line):
                name = _NAME.match(line)
                of = f" ({name[1]})" if name else ""
                raise ImproperlyConfigured(f"line {number} of .env{of} is not NAME=value")
        environ.Env.read_env(path, parse_comments=True)


def redis_url(url: str) -> str:
    """The address of a Redis, as it is; refused if it is none that can be used."""
    if not url:
        return ""
    if not url.startswith(("redis://", "rediss://")):
        raise ImproperlyConfigured("REDIS_URL must begin with redis:// or rediss://")
    if not _is_address(url):
        raise ImproperlyConfigured(
            "REDIS_URL is not redis://:password@host:port/number"
            " (in a password, # / ? @ are written %23 %2F %3F %40)"
        )
    return url


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_placed = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    # Anything else behind the port is the rest of a password with a `#`, a `/` or a `?` in it.
    return (
        is_placed
        and not re.search(r"\s", url)
        and not parts.fragment
        and re.fullmatch(r"/?[0-9]{0,4}", parts.path) is not None
        and re.fullmatch(r"(?:[a-z_]+=[^@&]*&?)*+", parts.query) is not None
    )


def write_whole(path: Path, text: str) -> None:
    """Make a private file that has all of a text, or no file."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
