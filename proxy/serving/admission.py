"""Admits requests before their bodies are read: client keys, quotas and loops.

A request is admitted once. `check_again` covers what can change while its body arrives: a key that
is revoked must not be served, and a gateway that is stopping must reject the request.
"""

import time

from proxy.audit.capture import Capture
from proxy.audit.transcripts.assembly import KEPT_HEADERS
from proxy.configuration.loop_guard import VIA, check_sender
from proxy.errors import GatewayError
from proxy.serving.authentication import authenticate
from proxy.serving.request import Admission, GatewayRequest
from proxy.serving.runtime import runtime


async def admit_key(request: GatewayRequest) -> None:
    """Admit any valid client key. Raises GatewayError, as do the two functions below."""
    runtime.check_accepting()
    _authenticate(request)


async def admit_conversation(request: GatewayRequest) -> None:
    """Admit a request that asks a model: it needs a slot and counts against the key's rate."""
    started = time.perf_counter()
    await admit_key(request)
    snapshot, key = request.admission.snapshot, request.admission.key
    try:
        check_sender(request.headers.get(VIA))
        await runtime.quota.acquire(request.exchange, key, snapshot.request_limits.max_streams)
    except GatewayError:
        start_audit(request)
        raise
    request.exchange.transfer.own_time = time.perf_counter() - started


async def admit_token_count(request: GatewayRequest) -> None:
    """Admit a request that only counts tokens: it has separate slots, but shares the key's rate."""
    await admit_key(request)
    snapshot, key = request.admission.snapshot, request.admission.key
    runtime.counting_quota.acquire_slot(request.exchange, key, snapshot.request_limits.max_streams)
    await runtime.quota.count_request(key)


def check_again(request: GatewayRequest) -> None:
    """Raise if the gateway is stopping, or if the key was revoked since the admission."""
    runtime.check_accepting()
    if request.admission.snapshot is not runtime.configuration.current:
        _authenticate(request)


def start_audit(request: GatewayRequest) -> None:
    """Audit the exchange from here on, with its content if the settings allow that."""
    exchange, snapshot = request.exchange, request.admission.snapshot
    exchange.request.snapshot = snapshot
    exchange.request.size = len(request.body)
    exchange.request.headers = {n: request.headers[n] for n in KEPT_HEADERS if n in request.headers}
    is_wanted = request.headers.get("x-athena-capture", "").lower() != "off"
    sampling = snapshot.sampling
    if is_wanted and sampling.capture_content and request.admission.key.capture_content:
        exchange.capture = Capture(request.body, sampling.transcript_bytes)


def _authenticate(request: GatewayRequest) -> None:
    snapshot = runtime.configuration.current
    key = authenticate(request, runtime.configuration, snapshot)
    request.exchange.request.key = key
    request.admission = Admission(snapshot, key)
