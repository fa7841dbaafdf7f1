"""Ports for the servers that tests start."""

import secrets
import socket

_FIRST, _LAST = 10_000, 32_000


def free_port() -> int:
    """Return an unused port below the range of outgoing connections.

    A server binds its port later, and again after a restart. A port of that range could meanwhile
    belong to a client of another test.
    """
    while True:
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
