"""Validators of configuration values. Each error names the invalid value."""

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from urllib.parse import urlsplit

import httpx
from django.conf import settings
from django.core.exceptions import ValidationError

from formats import FORMATS, Definition, DefinitionError, format_with_settings, read_definition
from proxy.security.egress import ForbiddenAddress
from proxy.security.key_variables import reason_against

_PATTERN = re.compile(r"[A-Za-z0-9._:/@+*?\[\]-]{1,200}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]{0,2000}")
_NOT_IN_URLS = re.compile(r"[^\x21-\x7e]|[\\\"<>^`{|}]")
_HOST_AND_PORT = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]*))?")
_HOST_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_FORMAT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,19}")
# Words of the audit's filters, and the family of leaked markup that no format reads.
_RESERVED_NAMES = frozenset({"any", "auto", "failed", "none", "unknown"})
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,99}")
# Set by the gateway itself, or specific to one connection.
_RESERVED_HEADERS = frozenset(
    {
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
        "te",
        "transfer-encoding",
        "upgrade",
        "x-api-key",
    }
)


def validate_pattern(value: str) -> None:
    """Check a glob for model names: `*`, `?` and `[…]`, not a regular expression."""
    if not _PATTERN.fullmatch(value):
        raise ValidationError(
            "%(value)r is not a valid pattern. Use the characters of model names, * and ?",
            params={"value": value[:80]},
        )


def validate_base_url(value: str) -> None:
    """Check that requests can be sent to the URL; the error says what is wrong with it."""
    if problem := _problem_of_url(value):
        raise ValidationError(
            "%(value)r is not a valid base URL: %(problem)s.",
            params={"value": value[:200], "problem": problem},
        )


def _problem_of_url(value: str) -> str:
    if wrong := _NOT_IN_URLS.search(value):
        char = wrong[0] if wrong[0].isprintable() and wrong[0] != " " else f"U+{ord(wrong[0]):04X}"
        if ord(wrong[0]) > 127:
            return f"it has the character {char}; write the host in its ASCII form (xn--…)"
        return f"it has the character {char}, which a URL cannot have"
    scheme, separator, rest = value.partition("://")
    if scheme.lower() not in ("http", "https") or not separator:
        return "it must start with http:// or https://"
    if "?" in rest or "#" in rest:
        return "it must not have a query or a fragment"
    netloc = rest.partition("/")[0]
    if "@" in netloc:
        return "it must not have a user or a password; enter the key in its own field"
    parts = _HOST_AND_PORT.fullmatch(netloc)
    if parts is None or not parts["host"]:
        return "it needs a host, and may have a port: https://HOST:PORT"
    if parts["port"] is not None and not 0 < int(parts["port"][:6] or "0") < 65536:
        return "the port must be a number from 1 to 65535"
    if problem := _problem_of_host(parts["host"].lower()):
        return problem
    try:
        httpx.URL(value).host  # noqa: B018  decodes the labels that start with xn--
    except (httpx.InvalidURL, ValueError):
        return f"{parts['host'][:100]!r} is not a valid international host name"
    return ""


def _problem_of_host(host: str) -> str:
    if host.startswith("["):
        try:
            IPv6Address(host[1:-1].partition("%")[0])
        except ValueError:
            return f"{host[:100]!r} is not a valid IPv6 address"
        return "an IPv6 address cannot have a zone here" if "%" in host else ""
    if host.endswith("."):
        return "the host must not end with a dot"
    labels = host.split(".")
    if len(host) > 253 or not all(map(_HOST_LABEL.fullmatch, labels)):
        return f"{host[:100]!r} is not a valid host name"
    if _NUMBER.fullmatch(labels[-1]):
        try:
            IPv4Address(host)
        except ValueError:
            return f"{host[:100]!r} is not a valid IPv4 address; write it as four numbers"
    return ""


def validate_address(value: str) -> None:
    """Reject addresses that the gateway may not connect to, without resolving host names.

    Resolved addresses are checked at every connection.
    """
    try:
        url = urlsplit(value)
        port = url.port or (443 if url.scheme == "https" else 80)
        settings.PRIVATE_UPSTREAMS.check_literal(url.hostname or "", port)
    except ForbiddenAddress as error:
        raise ValidationError(
            "%(value)r cannot be used: %(reason)s",
            params={"value": value[:200], "reason": str(error)},
        ) from error
    except ValueError:
        pass  # not a URL: `validate_base_url` reports it


def validate_variable(value: str) -> None:
    if not _VARIABLE.fullmatch(value):
        raise ValidationError(
            "%(value)r is not a valid name of an environment variable.",
            params={"value": value[:80]},
        )
    if reason := reason_against(value):
        raise ValidationError("%(value)r %(reason)s.", params={"value": value, "reason": reason})


def validate_headers(value: Any) -> None:
    if not isinstance(value, dict):
        raise ValidationError("Enter an object of header names and values.")
    for name, text in value.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _RESERVED_HEADERS:
            raise ValidationError("The header %(name)r cannot be set.", params={"name": name[:80]})
        if not isinstance(text, str) or not _HEADER_VALUE.fullmatch(text):
            raise ValidationError(
                "The value of %(name)r must be one line of ASCII text.", params={"name": name}
            )


def validate_object(value: Any) -> None:
    if not isinstance(value, dict):
        raise ValidationError("Enter a JSON object.")


def validate_patterns(value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValidationError("Enter a list of patterns.")
    for pattern in value:
        validate_pattern(pattern)


def validate_format_name(value: str) -> None:
    if not _FORMAT_NAME.fullmatch(value):
        raise ValidationError(
            "%(value)r is not a valid name. Use 1 to 20 lower-case letters, digits, - and _, and "
            "begin with a letter or a digit.",
            params={"value": value[:80]},
        )
    if value in FORMATS or value in _RESERVED_NAMES:
        raise ValidationError(
            "%(value)r is the name of a built-in format. Choose another.", params={"value": value}
        )


def validate_definition(value: Any) -> None:
    checked_definition(value)


def checked_definition(value: Any) -> Definition:
    """Read a format's definition; the ValidationError names the place of each problem."""
    try:
        return read_definition(value)
    except DefinitionError as error:
        raise ValidationError(
            [f"{place}: {message}" if place else message for place, message in error.problems]
        ) from error


def validate_markers(format_name: str, markers: Any) -> None:
    """Check `{"SECTION_BEGIN": ["<|calls|>"], …}` against the tokens of the format."""
    try:
        format_with_settings(format_name, marker_pairs(markers))
    except (KeyError, TypeError, ValueError) as error:
        raise ValidationError({"markers": str(error)}) from error


def marker_pairs(markers: Mapping[str, list[str]]) -> tuple[tuple[str, str], ...]:
    """The markers as `formats` expects them; raises TypeError for another shape."""
    if not isinstance(markers, dict):
        raise TypeError("Enter an object of token names and lists of spellings.")
    for role, spellings in markers.items():
        if not isinstance(spellings, list) or not all(isinstance(s, str) for s in spellings):
            raise TypeError(f"The spellings of {role} must be a list of strings.")
    return tuple((role, text) for role, spellings in markers.items() for text in spellings)
