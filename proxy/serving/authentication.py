"""Who is calling: a client key, in either of the headers that clients use.

A missing, unknown, expired or revoked key gets one and the same answer. A key is found by its hash,
so the time that takes says nothing about its characters.
"""

from fnmatch import fnmatchcase

from proxy.configuration.live import Configuration
from proxy.configuration.snapshot import Key, Snapshot
from proxy.database.clock import clock
from proxy.errors import ErrorCode, GatewayError
from proxy.http.handler import GatewayRequest
from proxy.models.keys import digest_of
from proxy.telemetry import metrics

_BEARER = "bearer "


def authenticate(request: GatewayRequest, configuration: Configuration, snapshot: Snapshot) -> Key:
    """The key of a request; raises GatewayError."""
    credential = _credential(request)
    key = snapshot.keys.get(digest_of(credential))
    if key is not None and (key.expires_at is None or key.expires_at > clock.now()):
        configuration.note_use(key.id)
        request.exchange.redactor.add_secrets([credential])
        return key
    if key is None and not configuration.is_fresh:
        raise GatewayError(
            ErrorCode.KEYS_UNAVAILABLE,
            "the gateway cannot check this key now: its database is away",
        )
    reason = "expired" if key is not None else "unknown" if credential else "missing"
    metrics.REFUSED_KEYS.labels(reason).inc()
    raise GatewayError(ErrorCode.INVALID_KEY, "invalid client key")


def revoked() -> GatewayError:
    """For an answer whose key was revoked while it was on its way."""
    return GatewayError(ErrorCode.KEY_REVOKED, "this client key was revoked")


def check_model(key: Key, model: str) -> None:
    """Raise GatewayError if the key may not use the model."""
    allowed = key.allowed_models
    if allowed and not any(fnmatchcase(model.lower(), pattern.lower()) for pattern in allowed):
        raise GatewayError(
            ErrorCode.MODEL_NOT_ALLOWED, f"this key may not use the model {model[:200]!r}"
        )


def _credential(request: GatewayRequest) -> str:
    """Clients send one of the two, or the same in both; two that differ are nobody's."""
    headers = request.headers
    bearer = headers.get("authorization", "")
    token = bearer[len(_BEARER) :].strip() if bearer.lower().startswith(_BEARER) else ""
    api_key = headers.get("x-api-key", "").strip()
    if token and api_key and token != api_key:
        raise GatewayError(
            ErrorCode.AMBIGUOUS_CREDENTIALS,
            "authorization and x-api-key carry different keys: send one of them",
        )
    return token or api_key
