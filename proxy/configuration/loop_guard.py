"""Stops a gateway from calling itself in an endless loop.

Every request to an upstream carries the id of the gateway that sends it; a gateway rejects requests
with its own id. Chained gateways work if their secrets differ.
"""

from functools import cache

from django.utils.crypto import salted_hmac

from proxy.errors import ErrorCode, GatewayError

VIA = "x-athena-via"


@cache
def gateway_id() -> str:
    """An id that all processes and nodes of this gateway share. It reveals nothing else."""
    return salted_hmac("athena.gateway", "name").hexdigest()[:16]


def check_sender(sender_id: str | None) -> None:
    """Raise GatewayError if the request comes from this gateway itself."""
    if sender_id == gateway_id():
        raise GatewayError(
            ErrorCode.UPSTREAM_IS_GATEWAY,
            "this upstream is this gateway itself: its base URL must be that of another server",
        )
