"""`GET /metrics`: for programs on this machine, and for whoever has the token.

For others it does not exist. A request that a proxy has passed on is not from this machine, even
if the proxy is. Served by the slim handler: a scraper calls by any host name and has no session,
and the database may be away when it matters most.
"""

import asyncio
from hmac import compare_digest
from ipaddress import IPv6Address, ip_address

from django.conf import settings
from django.http import Http404, HttpResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from proxy.http.handler import GatewayRequest
from proxy.serving.views import only
from proxy.telemetry.metrics import exposition

_FORWARDING = ("forwarded", "via", "x-forwarded-", "x-real-ip", "x-client-ip")
"""How the names of headers begin that a proxy adds."""


async def metrics(request: GatewayRequest) -> HttpResponse:
    if not (_has_token(request) or _is_local(request)):
        raise Http404
    answer: HttpResponse = await _answer(request)
    return answer


async def _exposition(request: GatewayRequest) -> HttpResponse:
    text = await asyncio.to_thread(exposition)
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return HttpResponse(text, content_type=CONTENT_TYPE_PLAIN_0_0_4, headers=headers)


_answer = only("GET", _exposition)


def _has_token(request: GatewayRequest) -> bool:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    token = settings.METRICS_TOKEN
    is_right = compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    return bool(token) and scheme.lower() == "bearer" and is_right


def _is_local(request: GatewayRequest) -> bool:
    if any(name.startswith(_FORWARDING) for name in request.headers):
        return False
    try:
        address = ip_address(request.client_address)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped  # what a socket for both families calls it
    return address.is_loopback
