"""What production refuses: settings that are weak, missing or open. One finding for each variable.

Django runs these checks before every command, so that `serve` does not begin with one of them.
Messages have the variable's name and never its value.
"""

import os
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.exceptions import ValidationError

_KEY_CHARS = 20
_SECRET_CHARS = 50  # as many as Django's own check wants
_DISTINCT_CHARS = 8
# Words of examples: whoever has read one knows the key.
_EXAMPLES = ("changeme", "change-me", "example", "insecure", "password", "secret", "your-")


@register(Tags.security)
def check_production(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    return [*_findings()] if settings.PRODUCTION else []


def _findings() -> Iterator[CheckMessage]:
    if _is_weak(os.environ.get("ATHENA_SECRET_KEY", ""), _SECRET_CHARS):
        yield Error(
            "ATHENA_SECRET_KEY is missing or weak.",
            hint="If this gateway has run before, the content of the file secret_key in its data "
            "directory: only that opens the stored keys of upstreams. Otherwise at least "
            f"{_SECRET_CHARS} characters of chance, the same for every node: "
            "openssl rand -base64 48",
            id="athena.E001",
        )
    hosts = settings.ALLOWED_HOSTS
    if any(map(_is_open, hosts)) or all(host in settings.LOOPBACK_HOSTS for host in hosts):
        yield Error(
            "ATHENA_ALLOWED_HOSTS must name the host names that people use, and no wildcard.",
            hint="ATHENA_ALLOWED_HOSTS=gateway.example.org",
            id="athena.E002",
        )
    client_key = os.environ.get("ATHENA_CLIENT_KEY", "")
    if client_key and _is_weak(client_key, _KEY_CHARS):
        yield Error(
            "ATHENA_CLIENT_KEY is weak.",
            hint="Leave it out, and one is made at the first start; or make keys in the admin.",
            id="athena.E003",
        )
    if password := os.environ.get("ATHENA_ADMIN_PASSWORD", ""):
        try:
            validate_password(password)
        except ValidationError as error:
            yield Error(
                f"ATHENA_ADMIN_PASSWORD is weak. {' '.join(error.messages)}",
                hint="Leave it out, and one is made at the first start.",
                id="athena.E004",
            )
    if settings.DEBUG:
        yield Error("DEBUG is on.", hint="It shows settings to strangers.", id="athena.E005")
    if not settings.TRUSTED_PROXIES:
        yield Error(
            "ATHENA_TRUSTED_PROXIES is missing.",
            hint="The address or network of the proxy that speaks TLS in front of the gateway: "
            "only that one is believed when it says that a request came by TLS, and from where.",
            id="athena.E006",
        )
    if any(map(_is_everybody, settings.TRUSTED_PROXIES)):
        yield Error(
            "ATHENA_TRUSTED_PROXIES has a network of strangers.",
            hint="Name the proxies' own addresses, or networks of at least /8 (IPv6: /16).",
            id="athena.E007",
        )


def _is_open(host: str) -> bool:
    """Whether it stands for every host, or for all of a top-level domain."""
    return "*" in host or (host.startswith(".") and "." not in host.strip("."))


def _is_everybody(network: str) -> bool:
    found = ip_network(network)
    return found.prefixlen < (8 if found.version == 4 else 16)


def _is_weak(secret: str, least: int) -> bool:
    lowered = secret.lower()
    return (
        len(secret) < least
        or len(set(secret)) < _DISTINCT_CHARS
        or any(word in lowered for word in _EXAMPLES)
    )
