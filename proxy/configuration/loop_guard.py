"""A gateway that asks itself is told so: one request must not become a thousand.

Every request to an upstream names the gateway that makes it; one that meets its own name refuses.
Gateways in a row are well, as long as each has a secret of its own.
"""

from functools import cache

from django.utils.crypto import salted_hmac

from proxy.errors import ErrorCode, GatewayError

VIA = "x-athena-via"


@cache
def own_name() -> str:
    """Tells this gateway, all of its processes and nodes, from others; says nothing else."""
    return salted_hmac("athena.gateway", "name").hexdigest()[:16]


def check_sender(name: str | None) -> None:
    """Raise GatewayError if the request comes from this gateway itself."""
    if name == own_name():
        raise GatewayError(
            ErrorCode.UPSTREAM_IS_GATEWAY,
            "this upstream is this gateway itself: its base URL must be that of another server",
        )
