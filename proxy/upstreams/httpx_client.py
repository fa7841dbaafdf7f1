"""httpx client that supports HTTP proxies and applies the gateway's egress policy.

Host names are resolved here, and the checked addresses are the ones that are connected to; TLS
still verifies the name. With an HTTP proxy, the proxy resolves and connects: only literal
addresses and known metadata names can then be rejected, and the proxy must guard the rest.
"""

from collections.abc import Iterable
from typing import Any

import httpcore
import httpx
from django.conf import settings

from proxy.configuration.upstream import port_of
from proxy.security.egress import ForbiddenAddress


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
        raise httpcore.ConnectError("the host name has no address")


class CheckedTransport(httpx.AsyncHTTPTransport):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # httpx has no public way to set the backend. A test fails if this stops working.
        self._pool._network_backend = CheckedBackend()


class CheckedClient(httpx.AsyncClient):
    """Does not follow redirects. With `trust_env` it uses the proxies of the environment."""

    def _init_transport(self, *unused: Any, **options: Any) -> httpx.AsyncBaseTransport:
        options.pop("transport", None)
        return CheckedTransport(**options)

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        url = request.url
        try:
            settings.PRIVATE_UPSTREAMS.check_literal(url.host, port_of(url))
        except ForbiddenAddress as error:
            raise httpx.ConnectError(str(error)) from error
        return await super().send(request, **options)
