"""`GET /metrics`: for programs on this machine, and for callers with the token.

All others get 404. A request that came through a proxy does not count as local, even if the
proxy is. It is served by the hot path's handler: a scraper uses any host name and has no session,
and metrics matter most while the database is unavailable.
"""

import asyncio
from hmac import compare_digest
from ipaddress import IPv6Address, ip_address

from django.conf import settings
from django.http import Http404, HttpResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from proxy.serving.handler import check_method
from proxy.serving.request import GatewayRequest
from proxy.telemetry.metrics import exposition

_PROXY_HEADERS = ("forwarded", "via", "x-forwarded-", "x-real-ip", "x-client-ip")
"""Prefixes of the headers that a proxy adds."""


async def metrics(request: GatewayRequest) -> HttpResponse:
    if not (_has_token(request) or _is_local(request)):
        raise Http404
    check_method(request, "GET")
    text = await asyncio.to_thread(exposition)
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return HttpResponse(text, content_type=CONTENT_TYPE_PLAIN_0_0_4, headers=headers)


def _has_token(request: GatewayRequest) -> bool:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    token = settings.METRICS_TOKEN
    is_right = compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    return bool(token) and scheme.lower() == "bearer" and is_right


def _is_local(request: GatewayRequest) -> bool:
    if any(name.startswith(_PROXY_HEADERS) for name in request.headers):
        return False
    try:
        address = ip_address(request.client_address)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped  # as a socket for both families reports IPv4 clients
    return address.is_loopback
