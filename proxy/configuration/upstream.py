"""An upstream as requests see it: where it is, what it is told, and how long it may take.

Its secrets are opened here, and are nowhere but in its headers. What is the same in every request
to it is put together once.
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
from proxy.configuration.loop_guard import VIA, own_name
from proxy.models.encrypted_headers import unreadable_headers
from proxy.security.secret_headers import carries_secret
from proxy.security.vault import SecretUnreadable
from proxy.validators import validate_base_url, validate_headers

DEMO_URL = "http://demo.invalid/v1"
"""The base URL of the demo, in a row that nodes share: each of them has it at its own address."""
USER_AGENT = "athena"
_ANTHROPIC_VERSION = "2023-06-01"
_PATHS = {"anthropic": "/messages", "openai": "/chat/completions"}

Origin: TypeAlias = tuple[str, str, int]
"""Scheme, host and port: what a connection is to."""


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
    #: What every request's body carries besides.
    fields: dict[str, object]
    connect_timeout: float
    first_byte_timeout: float
    idle_timeout: float
    progress_timeout: float
    total_timeout: float
    #: Why it cannot be called, in a sentence for an operator.
    trouble: str = ""
    origin: Origin = field(init=False, repr=False)
    #: The head of a request that carries nothing of a client's.
    head: bytes = field(init=False, repr=False)
    _secrets: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        secrets = (value for name, value in self.headers if carries_secret(name))
        bare = tuple(secret.removeprefix("Bearer ") for secret in secrets)
        object.__setattr__(self, "origin", origin_of(self.url))
        object.__setattr__(self, "head", head_of(self.url, self.headers))
        object.__setattr__(self, "_secrets", bare)

    def secrets(self) -> tuple[str, ...]:
        """What must not appear in anything that is shown or stored."""
        return self._secrets

    def redact(self, data: bytes) -> bytes:
        """JSON text without its secrets, however that spells them."""
        for secret in filter(None, self._secrets):
            data = _spellings(secret).sub(b"[redacted]", data)
        return data


@lru_cache(64)  # to compile one takes milliseconds, and few are ever needed
def _spellings(text: str) -> re.Pattern[bytes]:
    """A text as JSON may have it, where any character may be an escape."""
    spelled = (rf"(?:\\?{re.escape(char)}|\\u(?i:{ord(char):04x}))" for char in text)
    return re.compile("".join(spelled).encode())


def read_upstream(row: models.Upstream) -> Upstream:
    """An upstream as requests see it; raises ValidationError."""
    trouble = ""
    try:
        key = row.read_key().strip()
    except SecretUnreadable:
        key, trouble = "", "its stored key cannot be read with the present secret: enter it again"
    if row.key_variable and not key:
        trouble = f"the environment variable {row.key_variable} is not set"
    if names := unreadable_headers(row.headers):
        what = (
            "the stored value of its header" if len(names) == 1 else "stored values of its headers"
        )
        trouble = (
            f"{what} {', '.join(names)} cannot be read with the present secret: enter it again"
        )
    if not (key.isascii() and key.isprintable()):
        key, trouble = "", "its key has characters that no header can carry: enter it again"
    base_url = f"{settings.OWN_URL}/demo/v1" if row.base_url == DEMO_URL else row.base_url
    validate_base_url(base_url)
    validate_headers(row.headers)
    preferences = row.provider_preferences
    return Upstream(
        name=row.name,
        service=row.service,
        dialect=row.dialect,
        url=endpoint(base_url, _PATHS[row.dialect]),
        headers=(*_standard_headers(row.dialect, key), *row.headers.items()),
        fields={"provider": preferences} if preferences else {},
        connect_timeout=row.connect_timeout,
        first_byte_timeout=row.first_byte_timeout,
        idle_timeout=row.idle_timeout,
        progress_timeout=row.progress_timeout,
        total_timeout=row.total_timeout,
        trouble=trouble,
    )


def broken(row: models.Upstream) -> Upstream:
    """Stands for a row that cannot be understood: its routes must not lead elsewhere."""
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
        trouble="its row in the database cannot be understood, and the log says why",
    )


def endpoint(base_url: str, path: str) -> httpx.URL:
    """The address of an endpoint, whether or not the base has a slash or the version."""
    base = httpx.URL(base_url.rstrip("/").removesuffix(path))
    version = "" if base.path.strip("/") else "/v1"
    return base.copy_with(path=base.path.rstrip("/") + version + path)


def port_of(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def origin_of(url: httpx.URL) -> Origin:
    return url.scheme, url.host, port_of(url)


def head_of(url: httpx.URL, headers: Iterable[tuple[str, str]]) -> bytes:
    """A request's line and headers, but for the number of its bytes: that goes behind it."""
    lines = [
        f"POST {url.raw_path.decode('ascii')} HTTP/1.1",
        f"Host: {url.netloc.decode('ascii')}",
        *(f"{name}: {value}" for name, value in headers),
        "Content-Length: ",
    ]
    # A client's headers go on byte for byte: they are read as Latin-1.
    return "\r\n".join(lines).encode("latin-1")


def _standard_headers(dialect: str, key: str) -> list[tuple[str, str]]:
    headers = [
        ("content-type", "application/json"),
        ("accept", "text/event-stream, application/json"),
        ("accept-encoding", "identity"),  # an event must be readable as soon as it arrives
        ("user-agent", USER_AGENT),
        (VIA, own_name()),
    ]
    if dialect == "anthropic":
        headers.append(("anthropic-version", _ANTHROPIC_VERSION))
        return [*headers, ("x-api-key", key)] if key else headers
    return [*headers, ("authorization", f"Bearer {key}")] if key else headers
