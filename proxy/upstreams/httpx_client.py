"""httpx's own client, which knows proxies, made to connect only where the gateway may.

Names are resolved here and what was checked is connected to; TLS still verifies the name. Behind
an HTTP proxy it is the proxy that resolves and connects: then names that are forbidden as they
stand are refused, and the rest is the proxy's to guard.
"""

from collections.abc import Iterable
from typing import Any

import httpcore
import httpx
from django.conf import settings

from proxy.configuration.upstream import port_of
from proxy.security.egress import Forbidden


class CheckedBackend(httpcore.AnyIOBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            addresses = await settings.PRIVATE_UPSTREAMS.resolve_async(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from error
        for number, address in enumerate(addresses, 1):
            try:
                return await super().connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except httpcore.ConnectError:
                if number == len(addresses):
                    raise
        raise httpcore.ConnectError("the name has no address")


class StockTransport(httpx.AsyncHTTPTransport):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # httpx has no other way to choose it. A test fails when this stops working.
        self._pool._network_backend = CheckedBackend()


class StockClient(httpx.AsyncClient):
    """Follows no redirect. With `trust_env` it uses the proxies of the environment."""

    def _init_transport(self, *unused: Any, **options: Any) -> httpx.AsyncBaseTransport:
        options.pop("transport", None)
        return StockTransport(**options)

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        url = request.url
        try:
            settings.PRIVATE_UPSTREAMS.check_literal(url.host, port_of(url))
        except Forbidden as error:
            raise httpx.ConnectError(str(error)) from error
        return await super().send(request, **options)
