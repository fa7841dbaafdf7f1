"""An upstream as requests use it: its URL, headers and timeouts.

Secrets are decrypted here and exist only in the headers. The part of the request head that all
requests share is built once.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import httpx
from django.conf import settings
from django.utils.crypto import salted_hmac

from proxy import models
from proxy.configuration.loop_guard import VIA, gateway_id
from proxy.models.encrypted_headers import unreadable_headers
from proxy.security.key_variables import reason_against
from proxy.security.redaction import spellings_of
from proxy.security.secret_headers import carries_secret
from proxy.security.vault import SecretUnreadable
from proxy.validators import validate_base_url, validate_headers

DEMO_NAME = "demo"
DEMO_URL = "http://demo.invalid/v1"
"""The base URL of the demo upstream in a new database."""
USER_AGENT = "athena"
_ANTHROPIC_VERSION = "2023-06-01"
_PATHS = {"anthropic": "/messages", "openai": "/chat/completions"}

Origin: TypeAlias = tuple[str, str, int]
"""Scheme, host and port of a connection."""


def demo_key() -> str:
    """Return the API key of the demo upstream, which only the gateway itself uses."""
    return salted_hmac("athena.demo", "upstream key").hexdigest()


@dataclass(frozen=True, slots=True)
class Upstream:
    name: str
    service: str
    dialect: str
    url: httpx.URL
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    #: Fields that are added to every request body.
    fields: dict[str, object]
    connect_timeout: float
    first_byte_timeout: float
    idle_timeout: float
    progress_timeout: float
    total_timeout: float
    reuse_connections: bool
    #: The reason why it cannot be called, for the operator; empty if it can.
    trouble: str = ""
    origin: Origin = field(init=False, repr=False)
    #: The head of a request without any headers of the client.
    head: bytes = field(init=False, repr=False)
    _secrets: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        secrets = (value for name, value in self.headers if carries_secret(name))
        bare = tuple(secret.removeprefix("Bearer ") for secret in secrets)
        object.__setattr__(self, "origin", origin_of(self.url))
        object.__setattr__(self, "head", head_of(self.url, self.headers))
        object.__setattr__(self, "_secrets", bare)

    def secrets(self) -> tuple[str, ...]:
        """Values that must never be shown or stored."""
        return self._secrets

    def redact(self, data: bytes) -> bytes:
        """Replace the secrets in JSON text, including escaped spellings."""
        for secret in filter(None, self._secrets):
            data = _spellings(secret).sub(b"[redacted]", data)
        return data


@lru_cache(64)  # compiling a pattern takes milliseconds; there are few secrets
def _spellings(text: str) -> re.Pattern[bytes]:
    """Matches each spelling of a text in JSON, where any character may be escaped."""
    spelled = (
        "".join(rf"(?:\\?{re.escape(char)}|\\u(?i:{ord(char):04x}))" for char in spelling)
        for spelling in sorted(filter(None, spellings_of(text)), key=len, reverse=True)
    )
    return re.compile("|".join(spelled).encode())


def read_upstream(row: models.Upstream) -> Upstream:
    """Build the upstream of a row; raises ValidationError."""
    trouble = ""
    is_demo = _address(row) == DEMO_URL
    try:
        key = demo_key() if is_demo else row.read_key().strip()
    except SecretUnreadable:
        key, trouble = (
            "",
            "its stored key cannot be decrypted with the current ATHENA_SECRET_KEY; enter it again",
        )
    if row.key_variable and not key:
        reason = reason_against(row.key_variable) or "is not set"
        trouble = f"the environment variable {row.key_variable} {reason}"
    if names := unreadable_headers(row.headers):
        what = (
            "the stored value of its header" if len(names) == 1 else "stored values of its headers"
        )
        trouble = (
            f"{what} {', '.join(names)} cannot be decrypted with the current ATHENA_SECRET_KEY; "
            "enter it again"
        )
    if not (key.isascii() and key.isprintable()):
        key, trouble = "", "its key has characters that an HTTP header cannot carry; enter it again"
    base_url = f"{settings.OWN_URL}/demo/v1" if is_demo else row.base_url
    validate_base_url(base_url)
    validate_headers(row.headers)
    preferences = row.provider_preferences
    return Upstream(
        name=row.name,
        service=row.service,
        dialect=row.dialect,
        url=endpoint_url(base_url, _PATHS[row.dialect]),
        headers=(
            *_standard_headers(row.dialect, key),
            *((name, str(value)) for name, value in row.headers.items()),
        ),
        fields={"provider": preferences} if preferences else {},
        connect_timeout=row.connect_timeout,
        first_byte_timeout=row.first_byte_timeout,
        idle_timeout=row.idle_timeout,
        progress_timeout=row.progress_timeout,
        total_timeout=row.total_timeout,
        reuse_connections=row.reuse_connections,
        trouble=trouble,
    )


def invalid_upstream(row: models.Upstream) -> Upstream:
    """A placeholder for an invalid row, so that its routes fail instead of using another one."""
    return Upstream(
        name=row.name,
        service=models.Service.OTHER,
        dialect="openai",
        url=httpx.URL(),
        headers=(),
        fields={},
        connect_timeout=1,
        first_byte_timeout=1,
        idle_timeout=1,
        progress_timeout=1,
        total_timeout=1,
        reuse_connections=False,
        trouble="its row in the database is not valid; see the log for the reason",
    )


def endpoint_url(base_url: str, path: str) -> httpx.URL:
    """The URL of an endpoint; the base may lack the version, or end with a slash or the path."""
    base = httpx.URL(base_url.rstrip("/").removesuffix(path))
    version = "" if base.path.strip("/") else "/v1"
    return base.copy_with(path=base.path.rstrip("/") + version + path)


def port_of(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def origin_of(url: httpx.URL) -> Origin:
    return url.scheme, url.host, port_of(url)


def have_same_origin(row: models.Upstream, other: models.Upstream) -> bool:
    """Return whether requests to both reach the same server; False if an address is invalid."""
    try:
        return origin_of(httpx.URL(_address(row))) == origin_of(httpx.URL(_address(other)))
    except (httpx.InvalidURL, ValueError):
        return False


def ignores_address(row: models.Upstream) -> bool:
    """Return whether a row of the demo names another server than a gateway's own demo."""
    is_demo = row.base_url == DEMO_URL or row.base_url.endswith("/demo/v1")  # of earlier versions
    return row.name == DEMO_NAME and not is_demo


def _address(row: models.Upstream) -> str:
    # The demo is a part of the gateway. Every node uses its own, whatever the shared row says: a
    # node of another version may need the row as it is.
    return DEMO_URL if row.name == DEMO_NAME else row.base_url


def address_of(origin: Origin) -> str:
    scheme, host, port = origin
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def head_of(url: httpx.URL, headers: Iterable[tuple[str, str]]) -> bytes:
    """The request line and headers, up to `Content-Length: `; the caller appends the number."""
    lines = [
        f"POST {url.raw_path.decode('ascii')} HTTP/1.1",
        f"Host: {url.netloc.decode('ascii')}",
        *(f"{name}: {value}" for name, value in headers),
        "Content-Length: ",
    ]
    # Headers of the client are forwarded byte for byte, decoded as Latin-1.
    return "\r\n".join(lines).encode("latin-1")


def _standard_headers(dialect: str, key: str) -> list[tuple[str, str]]:
    headers = [
        ("content-type", "application/json"),
        ("accept", "text/event-stream, application/json"),
        ("accept-encoding", "identity"),  # compression would delay events
        ("user-agent", USER_AGENT),
        (VIA, gateway_id()),
    ]
    if dialect == "anthropic":
        headers.append(("anthropic-version", _ANTHROPIC_VERSION))
        return [*headers, ("x-api-key", key)] if key else headers
    return [*headers, ("authorization", f"Bearer {key}")] if key else headers
