"""Authenticates client keys, sent in either of the two headers that clients use.

A missing, unknown, expired or revoked key always gets the same error. Keys are looked up by their
hash, so timing reveals nothing about their characters.
"""

from proxy.configuration.live import Configuration
from proxy.configuration.snapshot import Key, Snapshot
from proxy.database.clock import clock
from proxy.errors import ErrorCode, GatewayError
from proxy.models.keys import digest_of
from proxy.serving.request import GatewayRequest
from proxy.telemetry import metrics

_BEARER = "bearer "


def authenticate(request: GatewayRequest, configuration: Configuration, snapshot: Snapshot) -> Key:
    """Return the client key of a request; raises GatewayError if it has no valid one."""
    credential = _credential(request)
    key = snapshot.keys.get(digest_of(credential))
    if key is not None and (key.expires_at is None or key.expires_at > clock.now()):
        configuration.record_key_use(key.id)
        request.exchange.redactor.add_secrets([credential])
        return key
    if key is None and not configuration.is_fresh:
        raise GatewayError(
            ErrorCode.KEYS_UNAVAILABLE,
            "this key cannot be checked while the gateway's database is unreachable: try again",
        )
    reason = "expired" if key is not None else "unknown" if credential else "missing"
    metrics.REFUSED_KEYS.labels(reason).inc()
    raise GatewayError(ErrorCode.INVALID_KEY, "invalid client key")


def _credential(request: GatewayRequest) -> str:
    """Read the key from either header, or from both if they agree."""
    headers = request.headers
    bearer = headers.get("authorization", "")
    token = bearer[len(_BEARER) :].strip() if bearer.lower().startswith(_BEARER) else ""
    api_key = headers.get("x-api-key", "").strip()
    if token and api_key and token != api_key:
        raise GatewayError(
            ErrorCode.AMBIGUOUS_CREDENTIALS,
            "the authorization and x-api-key headers carry different keys: send only one",
        )
    return token or api_key
