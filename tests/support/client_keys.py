"""Client keys with limits."""

import httpx

from tests.support.gateway import Gateway

MAKE_KEY = "k = ClientKey(label={0!r}, {1}); k.adopt({0!r}); k.save()"


def key_of(gateway: Gateway, name: str, limits: str) -> httpx.Client:
    """Make a key, and return a client that uses it."""
    gateway.edit(MAKE_KEY.format(name, limits))
    return gateway.client(**{"x-api-key": name})
