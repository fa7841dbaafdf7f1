"""Who may ask, and for whom there is a place: all that is settled before a body is read.

Nothing of a stranger's body is read, nor of one that no view asks for: a probe needs no place, and
whoever has no key takes none.
"""

import time

from proxy.audit.capture import Capture
from proxy.audit.transcripts.assembly import KEPT_HEADERS
from proxy.configuration.loop_guard import VIA, check_sender
from proxy.configuration.snapshot import Key, Snapshot
from proxy.errors import GatewayError
from proxy.http.handler import GatewayRequest
from proxy.serving import demo
from proxy.serving.authentication import authenticate
from proxy.serving.runtime import runtime

# Whose bodies are read, for a key.
_CONVERSATIONS = frozenset(
    ("/v1/messages", "/v1/chat/completions", "/v1/v1/messages", "/chat/completions")
)
_DEMO = "/demo/v1/chat/completions"
_COUNTS = frozenset(("/v1/messages/count_tokens", "/v1/v1/messages/count_tokens"))


async def vouch(request: GatewayRequest) -> bool:
    """Whether the body is to be read; raises GatewayError if nobody knows the caller, or if there
    is no place for one more."""
    began, path = time.perf_counter(), request.path
    if request.method != "POST":
        return False
    if path == _DEMO:
        demo.check_sender(request)
        return True
    if path not in _CONVERSATIONS and path not in _COUNTS:
        return False
    snapshot, key = admit(request)
    exchange, most = request.exchange, snapshot.bounds.max_streams
    if path in _COUNTS:
        runtime.counting.hold(exchange, key, most)
        await runtime.quota.hit(key)
        return True
    try:
        check_sender(request.headers.get(VIA))
        await runtime.quota.admit(exchange, key, most)
    except GatewayError:
        remember(request, snapshot, key)
        raise
    exchange.transfer.own_time = time.perf_counter() - began
    return True


def admit(request: GatewayRequest) -> tuple[Snapshot, Key]:
    """The configuration for this request, and who is calling."""
    runtime.admit()
    snapshot, exchange = runtime.configuration.current, request.exchange
    if exchange.request.key is None or request.snapshot is not snapshot:
        exchange.request.key = authenticate(request, runtime.configuration, snapshot)
        request.snapshot = snapshot
    return snapshot, exchange.request.key


def remember(request: GatewayRequest, snapshot: Snapshot, key: Key) -> None:
    """From here on the exchange is audited; its content, if that is allowed."""
    exchange, sampling = request.exchange, snapshot.sampling
    exchange.request.snapshot = snapshot
    exchange.request.size = len(request.content)
    exchange.request.headers = {n: request.headers[n] for n in KEPT_HEADERS if n in request.headers}
    is_wanted = request.headers.get("x-athena-capture", "").lower() != "off"
    if is_wanted and sampling.capture_content and key.capture_content:
        exchange.capture = Capture(request.content, sampling.transcript_bytes)
