"""The gateway's own endpoints, and the one place that makes errors HTTP."""

import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec
from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpResponse, HttpResponseRedirect

from formats import (
    DIALECTS,
    ClientError,
    Complexity,
    Conversation,
    FormatsError,
    ReplyOptions,
    estimate_tokens,
)
from proxy.audit.exchange import Exchange
from proxy.configuration.snapshot import Key
from proxy.errors import ErrorCode, GatewayError, UpstreamFailed
from proxy.http.direct_writer import SHORTCUT
from proxy.http.handler import GatewayRequest
from proxy.http.request_limits import Bounds
from proxy.http.response import Document, EventStream, Response
from proxy.serving import model_list
from proxy.serving.admission import admit, remember
from proxy.serving.authentication import check_model
from proxy.serving.relay import Relay
from proxy.serving.runtime import runtime
from proxy.upstreams.client import NOTHING_CARRIED, Carried

logger = logging.getLogger("athena.views")

# How the names of headers begin that an upstream of the same dialect gets. An open list: a beta's
# header and its field in the body travel together, or are refused.
_CARRIED = {"anthropic": "anthropic-", "openai": "openai-"}
# Of a failure, where a dialect knows no such status.
_STATUS = {("openai", 529): 503}
_MODEL_CHARS = 500


async def converse(request: GatewayRequest) -> Response:
    """The answer to a conversation, in the dialect that the path tells, as a stream or whole."""
    began = time.perf_counter()  # what the client took to send its request is not our time
    snapshot, key = admit(request)
    exchange = request.exchange
    remember(request, snapshot, key)
    conversation = _parse(request, key, snapshot.bounds)
    exchange.request.is_streaming = conversation.stream
    exchange.request.input_estimate = estimate_tokens(conversation)
    options = ReplyOptions(
        created=int(time.time()),
        include_usage=conversation.include_usage,
        input_estimate=exchange.request.input_estimate,
    )
    relay = Relay(runtime.client, snapshot, exchange, runtime.relays, options=options)
    carried = _carried(request)
    request.content = b""  # an open stream holds none of it
    runtime.audit.begin(exchange)
    exchange.transfer.own_time += time.perf_counter() - began
    if conversation.stream:
        await relay.open(conversation, carried, within=snapshot.open_after)
        shortcut = request.scope.get("state", {}).get(SHORTCUT)
        return EventStream(relay.stream(shortcut), relay.close, relay.headers | _warning(exchange))
    try:
        await relay.open(conversation, carried)
        headers = relay.headers
        body = await relay.collect()
        headers = headers | _warning(exchange)
        exchange.add_sent(body)
    finally:
        relay.close()
    return Document(body, headers)


async def count_tokens(request: GatewayRequest) -> HttpResponse:
    """How many tokens a request has: an estimate, and marked as one."""
    snapshot, key = admit(request)
    conversation = _parse(request, key, snapshot.bounds)
    return _json({"input_tokens": estimate_tokens(conversation), "estimated": True})


async def models(request: GatewayRequest) -> HttpResponse:
    snapshot, key = admit(request)
    query = request.query
    limit = query.get("limit", "")
    page = model_list.listing(
        snapshot,
        key,
        request.exchange.dialect,
        limit=int(limit[:9]) if limit.isascii() and limit.isdigit() else 1000,
        after=query.get("after_id", ""),
        before=query.get("before_id", ""),
    )
    return _json(page)


async def model(request: GatewayRequest, name: str) -> HttpResponse:
    snapshot, key = admit(request)
    return _json(model_list.entry(snapshot, key, request.exchange.dialect, name))


async def healthz(request: GatewayRequest) -> HttpResponse:
    """Says that the process serves; what it depends on is not asked."""
    return _json({"status": "ok"})


async def readyz(request: GatewayRequest) -> HttpResponse:
    """Says whether new work is taken, and what is wrong meanwhile.

    A database that is away for minutes takes no node out: all would go at once, and each still
    answers whoever it knows.
    """
    configuration = runtime.configuration
    status = "ready"
    if runtime.drain.is_begun:
        status = "draining"
    elif not configuration.version:
        status = "no configuration read yet"
    elif configuration.is_outdated:
        status = "database unreachable"
    return _json(
        {
            "status": status,
            "degraded": runtime.degraded(),
            "configuration_version": configuration.version or None,
        },
        status=200 if status == "ready" else 503,
    )


async def home(request: GatewayRequest) -> HttpResponse:
    """For people the admin; for a client that asks whether somebody is there, a yes."""
    if request.method == "HEAD":
        return HttpResponse(content_type="text/plain")
    return HttpResponseRedirect("/admin/")


async def hello(request: GatewayRequest) -> HttpResponse:
    return _json({"message": "hello"})


async def not_found(request: GatewayRequest, path: str = "") -> HttpResponse:
    raise Http404


def only(
    method: str, view: Callable[..., Coroutine[Any, Any, Response]]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """The view for one method; any other gets 405. HEAD goes with GET."""
    allowed = ("GET", "HEAD") if method == "GET" else (method,)

    async def checked(request: GatewayRequest, **kwargs: Any) -> Response:
        if request.method not in allowed:
            raise GatewayError(
                ErrorCode.METHOD_NOT_ALLOWED,
                f"{request.method} is not allowed here, only {method}",
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
            failure = GatewayError(ErrorCode.NOT_FOUND, f"there is nothing at {request.path[:200]}")
        case SuspiciousOperation():
            failure = GatewayError(ErrorCode.INVALID_REQUEST, str(error), should_retry=False)
        case _:
            logger.error("a defect", exc_info=error)
            failure = GatewayError(ErrorCode.INTERNAL_ERROR, "the gateway failed; its log says why")
    exchange = request.exchange
    exchange.error = failure
    headers = {
        "x-athena-error": failure.code,
        "x-athena-error-source": failure.source,
        **failure.headers,
    }
    if isinstance(failure, UpstreamFailed) and (refusal := failure.refusal):
        exchange.add_sent(refusal.body)
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
    exchange.add_sent(body)
    if failure.retry_after is not None:
        headers["retry-after"] = str(failure.retry_after)
    if not failure.should_retry:
        headers["x-should-retry"] = "false"
    status = _STATUS.get((exchange.dialect, failure.status), failure.status)
    return HttpResponse(body, content_type="application/json", status=status, headers=headers)


def _parse(request: GatewayRequest, key: Key, bounds: Bounds) -> Conversation:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise GatewayError(
            ErrorCode.UNSUPPORTED_ENCODING,
            f"the body is compressed ({encoding[:20]}): send it as it is",
        )
    exchange = request.exchange
    conversation = DIALECTS[exchange.dialect].parse(
        request.content, Complexity(bounds.max_json_depth, bounds.max_json_nodes)
    )
    exchange.request.model = conversation.model
    if len(conversation.model) > _MODEL_CHARS:
        raise ClientError(f"must have at most {_MODEL_CHARS} characters", path="model")
    if not conversation.model.isprintable():
        raise ClientError("must have no control characters", path="model")
    check_model(key, conversation.model)
    return conversation


def _carried(request: GatewayRequest) -> Carried:
    """What an upstream of the client's own dialect gets besides the body."""
    beginning = _CARRIED[request.exchange.dialect]
    headers = [item for item in request.headers.items() if item[0].startswith(beginning)]
    query = request.query_string
    return Carried(tuple(headers), query) if headers or query else NOTHING_CARRIED


def _warning(exchange: Exchange) -> dict[str, str]:
    """Of the notices so far, the codes: what was left out of the request, above all."""
    codes = sorted({notice.code.value for notice in exchange.answer.notices})
    return {"x-athena-warning": ", ".join(codes)} if codes else {}


def _json(body: Mapping[str, object], status: int = 200) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(body), content_type="application/json", status=status)
