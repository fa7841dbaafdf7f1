"""A request as the views of the hot path see it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from proxy.audit.exchange import Exchange
from proxy.configuration.snapshot import Key, Snapshot

_ANTHROPIC_HEADERS = ("anthropic-version", "x-api-key")
# Claude Code lists the models with a bearer token and without a version.
_ANTHROPIC_AGENTS = ("claude", "anthropic", "asyncanthropic")


@dataclass(frozen=True, slots=True)
class Admission:
    """The client key of a request, and the configuration in which it was found."""

    snapshot: Snapshot
    key: Key


class GatewayRequest:
    admission: Admission
    """Set before the body is read, for views that need a client key."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = _headers(scope["headers"])
        """Names are in lower case."""
        self.query_string: bytes = scope.get("query_string", b"")
        self.exchange = Exchange(_dialect(self.path, self.headers))
        self.body = b""

    @property
    def query(self) -> QueryDict:
        return QueryDict(self.query_string)

    @property
    def client_address(self) -> str:
        """The client's IP address; empty if the server does not know it."""
        client: tuple[str, int] | None = self.scope.get("client")
        return client[0] if client else ""


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Read headers like Django: join repeated ones, and drop names that contain `_`."""
    headers: dict[str, str] = {}
    for name, value in pairs:
        if b"_" not in name:
            key, text = name.decode("latin-1"), value.decode("latin-1")
            headers[key] = f"{headers[key]},{text}" if key in headers else text
    return headers


def _dialect(path: str, headers: dict[str, str]) -> str:
    """Choose the client's dialect by the path, or else by headers that only one kind sends."""
    if "/messages" in path:
        return "anthropic"
    if "/chat/completions" in path:
        return "openai"
    agent = headers.get("user-agent", "").lower()
    if agent.startswith(_ANTHROPIC_AGENTS) or not headers.keys().isdisjoint(_ANTHROPIC_HEADERS):
        return "anthropic"
    return "openai"
