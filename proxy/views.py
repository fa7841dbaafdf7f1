"""The gateway's own endpoints, and the one place that makes errors HTTP."""

import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec
from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect

from formats import (
    DIALECTS,
    Conversation,
    FailureKind,
    FormatsError,
    ReplyOptions,
    estimate_tokens,
)
from proxy import catalogue
from proxy.capture import Capture
from proxy.errors import ErrorCode, GatewayError, UpstreamFailed
from proxy.handler import EventStream, GatewayRequest
from proxy.keys import authenticate, check_model
from proxy.loop import VIA, check_sender
from proxy.relay import Relay
from proxy.runtime import runtime
from proxy.snapshot import Key, Snapshot
from proxy.transcript import KEPT_HEADERS
from proxy.upstream import Carried

logger = logging.getLogger("athena.views")

# How the names of headers begin that an upstream of the same dialect gets. An open list: a beta's
# header and its field in the body travel together, or are refused.
_CARRIED = {"anthropic": "anthropic-", "openai": "openai-"}


async def converse(request: GatewayRequest) -> HttpResponseBase:
    """The answer to a conversation, in the dialect that the path tells, as a stream or whole."""
    began = time.perf_counter()  # what the client took to send its request is not our time
    snapshot, key = _admit(request)
    exchange = request.exchange
    _remember(request, snapshot, key)
    check_sender(request.headers.get(VIA))
    runtime.quota.admit(exchange, key)
    conversation = _parse(request, key)
    exchange.is_streaming = conversation.stream
    exchange.input_estimate = estimate_tokens(conversation)
    options = ReplyOptions(
        created=int(time.time()),
        include_usage=conversation.include_usage,
        input_estimate=exchange.input_estimate,
    )
    relay = Relay(runtime.client, snapshot, exchange, runtime.relays, options=options)
    carried = _carried(request)
    request.content = b""  # an open stream holds none of it
    exchange.own_time = time.perf_counter() - began
    if conversation.stream:
        await relay.open(conversation, carried, within=snapshot.open_after)
        return EventStream(relay.stream(), relay.close, relay.headers)
    try:
        await relay.open(conversation, carried)
        headers = relay.headers
        body = await relay.collect()
        exchange.sent(body)
    finally:
        relay.close()
    return HttpResponse(body, content_type="application/json", headers=headers)


async def count_tokens(request: GatewayRequest) -> HttpResponse:
    """How many tokens a request has: an estimate, and marked as one."""
    _, key = _admit(request)
    conversation = _parse(request, key)
    return _json({"input_tokens": estimate_tokens(conversation), "estimated": True})


async def models(request: GatewayRequest) -> HttpResponse:
    snapshot, key = _admit(request)
    query = request.GET
    limit = query.get("limit", "")
    page = catalogue.listing(
        snapshot,
        key,
        request.exchange.dialect,
        limit=int(limit[:9]) if limit.isascii() and limit.isdigit() else 1000,
        after=query.get("after_id", ""),
        before=query.get("before_id", ""),
    )
    return _json(page)


async def model(request: GatewayRequest, name: str) -> HttpResponse:
    snapshot, key = _admit(request)
    return _json(catalogue.entry(snapshot, key, request.exchange.dialect, name))


async def healthz(request: HttpRequest) -> HttpResponse:
    """Says that the process serves; what it depends on is not asked."""
    return _json({"status": "ok"})


async def readyz(request: HttpRequest) -> HttpResponse:
    """Says whether new work is taken: the database was there a moment ago, nothing is stopping."""
    configuration = runtime.configuration
    status = "draining" if runtime.is_draining else "ready"
    if not configuration.is_fresh:
        status = "database unreachable"
    version = configuration.current.version
    return _json(
        {"status": status, "configuration_version": version},
        status=200 if status == "ready" else 503,
    )


async def home(request: HttpRequest) -> HttpResponse:
    """For people the admin; for a client that asks whether somebody is there, a yes."""
    if request.method == "HEAD":
        return HttpResponse(content_type="text/plain")
    return HttpResponseRedirect("/admin/")


async def hello(request: HttpRequest) -> HttpResponse:
    return _json({"message": "hello"})


async def not_found(request: HttpRequest, path: str = "") -> HttpResponse:
    raise Http404


def only(
    method: str, view: Callable[..., Coroutine[Any, Any, HttpResponseBase]]
) -> Callable[..., Coroutine[Any, Any, HttpResponseBase]]:
    """The view for one method; any other gets 405. HEAD goes with GET."""
    allowed = ("GET", "HEAD") if method == "GET" else (method,)

    async def checked(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if request.method not in allowed:
            raise GatewayError(
                f"{request.method} is not allowed here, only {method}",
                kind=FailureKind.INVALID_REQUEST,
                status=405,
                code=ErrorCode.METHOD_NOT_ALLOWED,
                source="client",
                may_retry=False,
                headers={"allow": ", ".join(allowed)},
            )
        return await view(request, **kwargs)

    return checked


def answer_error(request: GatewayRequest, error: Exception) -> HttpResponse:
    """Any exception as the caller's dialect shows errors."""
    match error:
        case GatewayError():
            failure = error
        case FormatsError():
            failure = GatewayError.of(error)
        case Http404():
            failure = GatewayError(
                f"there is nothing at {request.path[:200]}",
                kind=FailureKind.NOT_FOUND,
                code=ErrorCode.NOT_FOUND,
                source="client",
                may_retry=False,
            )
        case SuspiciousOperation():
            failure = GatewayError(
                str(error),
                kind=FailureKind.INVALID_REQUEST,
                code=ErrorCode.INVALID_REQUEST,
                source="client",
                may_retry=False,
            )
        case _:
            logger.error("a defect", exc_info=error)
            failure = GatewayError(
                "the gateway failed; its log says why",
                kind=FailureKind.INTERNAL,
                code=ErrorCode.INTERNAL_ERROR,
            )
    exchange = request.exchange
    exchange.error = failure
    headers = {
        "request-id": exchange.request_id,
        "x-request-id": exchange.request_id,
        "x-athena-error": failure.code,
        "x-athena-error-source": failure.source,
        **failure.headers,
    }
    if isinstance(failure, UpstreamFailed) and (refusal := failure.refusal):
        exchange.sent(refusal.body)
        return HttpResponse(
            refusal.body,
            content_type="application/json",
            status=refusal.status,
            headers={**headers, **refusal.headers},
        )
    body = DIALECTS[exchange.dialect].encode_error(
        failure.kind,
        str(failure),
        request_id=exchange.request_id,
        details=failure.details,
        param=failure.param,
    )
    exchange.sent(body)
    if failure.retry_after is not None:
        headers["retry-after"] = str(failure.retry_after)
    if not failure.may_retry:
        headers["x-should-retry"] = "false"
    return HttpResponse(
        body, content_type="application/json", status=failure.status, headers=headers
    )


def _admit(request: GatewayRequest) -> tuple[Snapshot, Key]:
    """The configuration for this request, and who is calling."""
    runtime.admit()
    snapshot = runtime.configuration.current
    request.exchange.key = key = authenticate(request, runtime.configuration, snapshot)
    return snapshot, key


def _remember(request: GatewayRequest, snapshot: Snapshot, key: Key) -> None:
    """From here on the exchange is audited; its content, if that is allowed."""
    exchange, sampling = request.exchange, snapshot.sampling
    exchange.snapshot = snapshot
    exchange.bytes_in = len(request.content)
    exchange.headers = {n: request.headers[n] for n in KEPT_HEADERS if n in request.headers}
    if sampling.capture_content and key.capture_content:
        exchange.capture = Capture(request.content, sampling.transcript_bytes)


def _parse(request: GatewayRequest, key: Key) -> Conversation:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise GatewayError(
            f"the body is compressed ({encoding[:20]}): send it as it is",
            kind=FailureKind.INVALID_REQUEST,
            status=415,
            code=ErrorCode.UNSUPPORTED_ENCODING,
            source="client",
            may_retry=False,
        )
    exchange = request.exchange
    conversation = DIALECTS[exchange.dialect].parse(request.content)
    exchange.model = conversation.model
    check_model(key, conversation.model)
    return conversation


def _carried(request: GatewayRequest) -> Carried:
    """What an upstream of the client's own dialect gets besides the body."""
    beginning = _CARRIED[request.exchange.dialect]
    headers = ((name.lower(), value) for name, value in request.headers.items())
    return Carried(
        tuple((name, value) for name, value in headers if name.startswith(beginning)),
        request.META.get("QUERY_STRING", "").encode("latin-1"),
    )


def _json(body: Mapping[str, object], status: int = 200) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(body), content_type="application/json", status=status)
