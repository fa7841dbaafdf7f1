"""The gateway's own endpoints: conversations, token counts, lists of models, and probes."""

import asyncio
import time
from collections.abc import Mapping

import msgspec
from django.http import Http404, HttpResponse, HttpResponseRedirect

from formats import (
    DIALECTS,
    ClientError,
    Complexity,
    Conversation,
    ReplyOptions,
    estimate_tokens,
)
from proxy.audit.exchange import Exchange
from proxy.errors import ErrorCode, GatewayError
from proxy.http.direct_writer import DIRECT_WRITER
from proxy.serving import model_list
from proxy.serving.admission import (
    admit_conversation,
    admit_key,
    admit_token_count,
    check_again,
    start_audit,
)
from proxy.serving.handler import Document, EventStream, Response, endpoint
from proxy.serving.model_access import check_models
from proxy.serving.relay import Relay
from proxy.serving.request import GatewayRequest
from proxy.serving.runtime import runtime
from proxy.upstreams.client import Forwarded

_MAX_MODEL_CHARS = 500


@endpoint("POST", admit=admit_conversation, reads_body=True)
async def converse(request: GatewayRequest) -> Response:
    """Answer a conversation in the dialect of the path, as a stream or as one document."""
    started = time.perf_counter()  # excludes the time that the client took to send its body
    check_again(request)
    start_audit(request)
    conversation = _parse(request)
    relay = _relay(request, conversation)
    forwarded = Forwarded.of_request(
        request.exchange.dialect, request.headers, request.query_string
    )
    request.body = b""  # an open stream must not keep it in memory
    exchange = request.exchange
    runtime.audit.record_start(exchange)
    exchange.transfer.own_time += time.perf_counter() - started
    if conversation.stream:
        open_after = request.admission.snapshot.open_after
        await relay.open(conversation, forwarded, within=open_after)
        writer = request.scope.get("state", {}).get(DIRECT_WRITER)
        return EventStream(relay.stream(writer), relay.close, relay.headers | _warning(exchange))
    try:
        await relay.open(conversation, forwarded)
        headers = relay.headers
        body = await relay.collect()
        exchange.add_sent(body)
    finally:
        relay.close()
    return Document(body, headers | _warning(exchange))


@endpoint("POST", admit=admit_token_count, reads_body=True)
async def count_tokens(request: GatewayRequest) -> HttpResponse:
    """Estimate the tokens of a conversation; the response says that it is an estimate."""
    check_again(request)
    conversation = _parse(request)
    return _json({"input_tokens": estimate_tokens(conversation), "estimated": True})


@endpoint("GET", admit=admit_key)
async def models(request: GatewayRequest) -> HttpResponse:
    query = request.query
    limit = query.get("limit", "")
    # In a thread: it resolves up to a thousand names, each against all routes.
    page = await asyncio.to_thread(
        model_list.listing,
        request.admission.snapshot,
        request.admission.key,
        request.exchange.dialect,
        limit=int(limit[:9]) if limit.isascii() and limit.isdigit() else 1000,
        after=query.get("after_id", ""),
        before=query.get("before_id", ""),
    )
    return _json(page)


@endpoint("GET", admit=admit_key)
async def model(request: GatewayRequest, name: str) -> HttpResponse:
    snapshot, key = request.admission.snapshot, request.admission.key
    return _json(model_list.entry(snapshot, key, request.exchange.dialect, name))


@endpoint("GET")
async def healthz(request: GatewayRequest) -> HttpResponse:
    """Report that the process answers; checks nothing that it depends on."""
    return _json({"status": "ok"})


@endpoint("GET")
async def readyz(request: GatewayRequest) -> HttpResponse:
    """Report whether this process takes new requests, and what is degraded.

    A database outage of a few minutes does not make a node unready: all nodes would become unready
    together, although each can still serve the keys that it knows.
    """
    configuration = runtime.configuration
    status = "ready"
    if runtime.drain.is_draining:
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


@endpoint("GET")
async def home(request: GatewayRequest) -> HttpResponse:
    """Redirect browsers to the admin; answer 200 to clients that check for a server with HEAD."""
    if request.method == "HEAD":
        return HttpResponse(content_type="text/plain")
    return HttpResponseRedirect("/admin/")


@endpoint("GET")
async def hello(request: GatewayRequest) -> HttpResponse:
    return _json({"message": "hello"})


async def not_found(request: GatewayRequest, path: str = "") -> HttpResponse:
    raise Http404


def _parse(request: GatewayRequest) -> Conversation:
    """Parse the body; raises GatewayError or ClientError."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise GatewayError(
            ErrorCode.UNSUPPORTED_ENCODING,
            f"the body is compressed ({encoding[:20]}): send it uncompressed",
        )
    exchange, limits = request.exchange, request.admission.snapshot.request_limits
    conversation = DIALECTS[exchange.dialect].parse(
        request.body, Complexity(limits.max_json_depth, limits.max_json_nodes)
    )
    exchange.request.model = conversation.model
    if len(conversation.model) > _MAX_MODEL_CHARS:
        raise ClientError(f"must have at most {_MAX_MODEL_CHARS} characters", path="model")
    if not conversation.model.isprintable():
        raise ClientError("must not contain control characters", path="model")
    check_models(request, conversation)
    return conversation


def _relay(request: GatewayRequest, conversation: Conversation) -> Relay:
    exchange = request.exchange
    exchange.request.is_streaming = conversation.stream
    exchange.request.input_estimate = estimate_tokens(conversation)
    options = ReplyOptions(
        created=int(time.time()),
        include_usage=conversation.include_usage,
        request_id=exchange.request_id,
        input_estimate=exchange.request.input_estimate,
    )
    snapshot = request.admission.snapshot
    return Relay(runtime.client, snapshot, exchange, runtime.relays, options=options)


def _warning(exchange: Exchange) -> dict[str, str]:
    """List the notices so far, mostly about parts left out of the request."""
    codes = sorted({notice.code.value for notice in exchange.answer.notices})
    return {"x-athena-warning": ", ".join(codes)} if codes else {}


def _json(body: Mapping[str, object], status: int = 200) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(body), content_type="application/json", status=status)
