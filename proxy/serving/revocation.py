"""Aborts the open answers of client keys that were revoked or deleted.

An expired key is different: its open answers may finish.
"""

from collections.abc import Iterable

from proxy.configuration.snapshot import Snapshot
from proxy.errors import ErrorCode, GatewayError
from proxy.serving.relay import Relay


def abort_revoked(relays: Iterable[Relay], snapshot: Snapshot) -> None:
    """Abort each answer whose key is not in the new configuration."""
    valid = {key.id for key in snapshot.keys.values()}
    for relay in list(relays):
        if relay.key is not None and relay.key.id not in valid:
            message = "this client key was revoked"
            relay.abort_with(GatewayError(ErrorCode.KEY_REVOKED, message))
