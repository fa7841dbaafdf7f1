"""System checks that stop production from starting with weak, missing or open settings.

One check for each variable. Django runs them before every command, so `serve` does not start.
Messages contain the name of the variable and never its value.
"""

import os
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.exceptions import ValidationError

_MIN_KEY_CHARS = 20
_MIN_SECRET_CHARS = 50  # the minimum of Django's own check
_MIN_DISTINCT_CHARS = 8
# Words of published examples, which anyone may know.
_EXAMPLE_WORDS = ("changeme", "change-me", "example", "insecure", "password", "secret", "your-")


@register(Tags.security)
def check_production(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    return [*_findings()] if settings.PRODUCTION else []


def _findings() -> Iterator[CheckMessage]:
    if _is_weak(os.environ.get("ATHENA_SECRET_KEY", ""), _MIN_SECRET_CHARS):
        yield Error(
            "ATHENA_SECRET_KEY is missing or weak.",
            hint="If this gateway has run before, use the content of the file secret_key in its "
            "data directory: no other value can decrypt the stored keys of upstreams. Otherwise "
            f"generate at least {_MIN_SECRET_CHARS} random characters, and use the same value on "
            "every node: openssl rand -base64 48",
            id="athena.E001",
        )
    hosts = settings.ALLOWED_HOSTS
    if any(map(_is_wildcard, hosts)) or all(host in settings.LOOPBACK_HOSTS for host in hosts):
        yield Error(
            "ATHENA_ALLOWED_HOSTS must list the public host names, without wildcards.",
            hint="For example: ATHENA_ALLOWED_HOSTS=gateway.example.org",
            id="athena.E002",
        )
    client_key = os.environ.get("ATHENA_CLIENT_KEY", "")
    if client_key and _is_weak(client_key, _MIN_KEY_CHARS):
        yield Error(
            "ATHENA_CLIENT_KEY is weak.",
            hint="Leave it unset to have a key generated at the first start, or create keys in the "
            "admin.",
            id="athena.E003",
        )
    if password := os.environ.get("ATHENA_ADMIN_PASSWORD", ""):
        try:
            validate_password(password)
        except ValidationError as error:
            yield Error(
                f"ATHENA_ADMIN_PASSWORD is weak. {' '.join(error.messages)}",
                hint="Leave it unset to have a password generated at the first start.",
                id="athena.E004",
            )
    if settings.DEBUG:
        yield Error(
            "DEBUG is on.",
            hint="Turn it off: error pages would show settings to anyone.",
            id="athena.E005",
        )
    if not settings.TRUSTED_PROXIES:
        yield Error(
            "ATHENA_TRUSTED_PROXIES is missing.",
            hint="Set it to the address or network of the TLS proxy in front of the gateway. Only "
            "from there are x-forwarded-proto and x-forwarded-for trusted.",
            id="athena.E006",
        )
    if any(map(_is_too_wide, settings.TRUSTED_PROXIES)):
        yield Error(
            "ATHENA_TRUSTED_PROXIES contains a network that is too wide.",
            hint="List the addresses of the proxies, or networks of /8 or smaller (IPv6: /16).",
            id="athena.E007",
        )


def _is_wildcard(host: str) -> bool:
    """Return True if it matches every host, or a whole top-level domain."""
    return "*" in host or (host.startswith(".") and "." not in host.strip("."))


def _is_too_wide(network: str) -> bool:
    parsed = ip_network(network)
    return parsed.prefixlen < (8 if parsed.version == 4 else 16)


def _is_weak(secret: str, min_chars: int) -> bool:
    lowered = secret.lower()
    return (
        len(secret) < min_chars
        or len(set(secret)) < _MIN_DISTINCT_CHARS
        or any(word in lowered for word in _EXAMPLE_WORDS)
    )
