"""Authenticates client keys, sent in either of the two headers that clients use.

A rejection says what is wrong with the headers of the request. Of the key itself it says only what
its characters show, never whether it exists, has expired or was revoked. Keys are looked up by
their hash, so timing reveals nothing about their characters.
"""

from collections.abc import Mapping
from typing import NamedTuple

from proxy.configuration.live import Configuration
from proxy.configuration.snapshot import Key, Snapshot
from proxy.database.clock import clock
from proxy.errors import ErrorCode, GatewayError
from proxy.models.keys import digest_of
from proxy.serving.request import GatewayRequest
from proxy.telemetry import metrics

_BEARER = "bearer"
_HOW_TO_SEND = "Send a client key as `x-api-key: KEY` or `Authorization: Bearer KEY`"

# How the keys of well-known services begin. People paste them by mistake.
_FOREIGN_PREFIXES = {
    "sk-ant-": "Anthropic",
    "sk-or-": "OpenRouter",
    "sk-proj-": "OpenAI",
    "gsk_": "Groq",
    "AIza": "Google",
    "hf_": "Hugging Face",
}


class _Credential(NamedTuple):
    key: str
    header: str


def authenticate(request: GatewayRequest, configuration: Configuration, snapshot: Snapshot) -> Key:
    """Return the client key of a request; raises GatewayError if it has no valid one."""
    credential = _credential(request)
    key = snapshot.keys.get(digest_of(credential.key))
    if key is not None and (key.expires_at is None or key.expires_at > clock.now()):
        configuration.record_key_use(key.id)
        request.exchange.redactor.add_secrets([credential.key])
        return key
    if key is None and not configuration.is_fresh:
        raise GatewayError(
            ErrorCode.KEYS_UNAVAILABLE,
            "this key cannot be checked while the gateway's database is unreachable: try again",
        )
    raise _rejection("unknown" if key is None else "expired", _invalid_message(credential))


def _credential(request: GatewayRequest) -> _Credential:
    """Read the key from either header, or from both if they agree."""
    headers = request.headers
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    token = token.strip() if scheme.lower() == _BEARER else ""
    api_key = headers.get("x-api-key", "").strip()
    if token and api_key and token != api_key:
        raise GatewayError(
            ErrorCode.AMBIGUOUS_CREDENTIALS,
            "the authorization and x-api-key headers carry different keys: send only one",
        )
    if token:
        return _Credential(token, "authorization")
    if api_key:
        return _Credential(api_key, "x-api-key")
    raise _rejection("missing", f"{_missing_message(headers, scheme)}. {_HOW_TO_SEND}.")


def _missing_message(headers: Mapping[str, str], scheme: str) -> str:
    if scheme.lower() == _BEARER:
        return "no client key: the authorization header has nothing after `Bearer`"
    if scheme:
        return "no client key: the authorization header does not start with `Bearer `"
    empty = [name for name in ("x-api-key", "authorization") if name in headers]
    if empty:
        return f"no client key: the {empty[0]} header is empty"
    return "no client key: the request has neither an x-api-key nor an authorization header"


def _invalid_message(credential: _Credential) -> str:
    """Describe a key by its characters alone: the text is the same whether or not it exists."""
    key, header = credential
    if not key.isascii() or any(char.isspace() for char in key):
        return (
            f"invalid client key in the {header} header: it contains a space or a character that "
            "no client key has. Copy the key again."
        )
    for prefix, service in _FOREIGN_PREFIXES.items():
        if key.startswith(prefix):
            return (
                f"invalid client key in the {header} header: it looks like a key of {service}. "
                "Send a client key of this gateway, which adds the key of the upstream itself."
            )
    return (
        f"invalid client key in the {header} header: it is unknown, expired or revoked. Check that "
        "it is complete and from this gateway, or get a new one from an operator."
    )


def _rejection(reason: str, message: str) -> GatewayError:
    metrics.REFUSED_KEYS.labels(reason).inc()
    return GatewayError(ErrorCode.INVALID_KEY, message)
