"""Tests an upstream step by step, in the order in which it can fail.

The last step is a complete request that takes the same path as a client's. Nothing of it is stored,
and no step shows the key: messages from outside are redacted first.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from time import perf_counter
from typing import Any, Literal

import httpx
import msgspec
from django.conf import settings

from formats import DIALECTS, FormatsError, ReplyOptions, read_message
from proxy.audit.exchange import Exchange
from proxy.configuration.snapshot import RouteRow, Snapshot
from proxy.configuration.upstream import Upstream, port_of
from proxy.errors import ErrorCode, GatewayError
from proxy.models import Reasoning, Service
from proxy.security.egress import ForbiddenAddress
from proxy.security.redaction import Redactor
from proxy.serving.relay import Relay
from proxy.upstreams.client import UpstreamClient
from proxy.upstreams.error_answers import foreign_body_message
from proxy.upstreams.httpx_client import CheckedClient

LIST, CALL = "list of models", "streamed tool call"
_CONNECT_SECONDS = 5.0
_LIST_SECONDS = 10.0
_CALL_SECONDS = 60.0
_LIST_BYTES = 8 * 1024 * 1024
_MAX_MODELS = 5000
_MAX_CHARS = 200
_MIN_WINDOW, _MAX_WINDOW = 1024, 2**31 - 1
"""Tokens that a route's context window may have."""
_NO_VERSION = "Is the version, such as /v1, missing from the base URL?"
_MODEL = "probe"  # the name under which the gateway routes it
_TOOL = {
    "name": "report_health",
    "description": "Report how the patient is.",
    "input_schema": {
        "type": "object",
        "properties": {"state": {"type": "string"}},
        "required": ["state"],
    },
}
QUESTION = {
    "model": _MODEL,
    "max_tokens": 1000,
    "stream": True,
    "tools": [_TOOL],
    "messages": [{"role": "user", "content": "Call report_health with the state `good`."}],
}


class Problem(Exception):
    """A failed step; the message says what is wrong and what to do about it."""


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    state: Literal["ok", "wrong", "skipped"]
    detail: str
    ms: float = 0


def probe(upstream: Upstream, snapshot: Snapshot, *, model: str = "") -> Iterator[Step]:
    """Yield every step when it has ended. Steps after a failed one are skipped.

    `model` is asked to call a tool; by default the first model of the upstream's list.
    """
    listed: list[str] = []

    def list_models() -> str:
        listed.extend(models_of(upstream))
        if len(listed) == 1:
            return "1 model"
        return f"{len(listed)} models" if listed else "an empty list"

    def call_tool() -> str:
        tested = model or next(iter(listed), "")
        if not tested:
            raise Problem("there is no model to test. Name one.")
        return asyncio.run(_call(upstream, snapshot, tested))

    steps: dict[str, Callable[[], str]] = {"settings": lambda: _check_settings(upstream)}
    if settings.UPSTREAM_TRANSPORT != "httpx":  # httpx may go through a proxy
        steps |= {
            "name": lambda: _resolve(upstream),
            "connection": lambda: _connect(upstream),
            "TLS": lambda: _shake_hands(upstream),
        }
    steps |= {
        "key": lambda: _check_key(upstream),
        LIST: list_models,
        CALL: call_tool,
    }
    redactor, is_usable = Redactor(upstream.secrets()), True
    for name, check in steps.items():
        if not is_usable:
            yield Step(name, "skipped", "")
            continue
        started = perf_counter()
        try:
            state, detail = "ok", check()
        except Problem as problem:
            # Many upstreams work without a list of models.
            is_usable = name == LIST and bool(model)
            state, detail = "wrong", str(problem)
        ms = (perf_counter() - started) * 1000
        yield Step(name, "ok" if state == "ok" else "wrong", redactor.redact_text(detail), ms)


def models_of(upstream: Upstream) -> dict[str, int | None]:
    """Return the upstream's models in its order, each with its context window if the list has it.

    Raises Problem.
    """
    _check_settings(upstream)
    response = _get(upstream, "/models")
    if response.status_code != 200:
        hint = f" {_NO_VERSION}" if response.status_code == 404 else ""
        raise Problem(f"the list of models returned HTTP {response.status_code}.{hint}")
    try:
        listed = msgspec.json.decode(response.content, type=dict[str, Any])["data"]
        models = {e["id"]: _context_window(e) for e in listed if isinstance(e["id"], str)}
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError) as error:
        came = foreign_body_message(upstream, 200, response.headers.raw, response.content)
        raise Problem(f"no list of models: {came}. Is the base URL right?") from error
    # A route cannot have a longer name.
    usable = (item for item in models.items() if 0 < len(item[0]) <= _MAX_CHARS)
    return dict(islice(usable, _MAX_MODELS))


def _context_window(entry: dict[str, Any]) -> int | None:
    """Return the context window in an entry of vLLM or OpenRouter, if a route can have it."""
    for field in ("max_model_len", "context_length"):
        size = entry.get(field)
        if type(size) is int and _MIN_WINDOW <= size <= _MAX_WINDOW:
            return size
    return None


def _check_settings(upstream: Upstream) -> str:
    if upstream.trouble:
        raise Problem(
            f"{upstream.trouble}. If a variable is missing, put it into .env, for every process."
        )
    return f"{upstream.dialect} dialect at {upstream.url}"


def _resolve(upstream: Upstream) -> str:
    return ", ".join(_addresses(upstream))


def _connect(upstream: Upstream) -> str:
    port = port_of(upstream.url)
    try:
        _dial(upstream).close()
    except TimeoutError as error:
        raise Problem(f"port {port} does not answer. Is a firewall in between?") from error
    except OSError as error:
        raise Problem(f"port {port} is unreachable: {error.strerror or error}.") from error
    return f"port {port} is open"


def _shake_hands(upstream: Upstream) -> str:
    if upstream.url.scheme != "https":
        return "not used: the address is plain HTTP"
    context = httpx.create_ssl_context()
    try:
        with (
            _dial(upstream) as plain,
            context.wrap_socket(plain, server_hostname=upstream.url.host) as secure,
        ):
            version, certificate = secure.version(), secure.getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        raise Problem(f"the certificate is not trusted: {error.verify_message}.") from error
    except OSError as error:
        raise Problem(f"the TLS handshake failed: {error.strerror or error}.") from error
    ends = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    return f"{version}, certificate valid until {datetime.fromtimestamp(ends, UTC):%Y-%m-%d}"


def _addresses(upstream: Upstream) -> list[str]:
    """Resolve the upstream's host; raises Problem for addresses that are not allowed."""
    url = upstream.url
    try:
        addresses: list[str] = settings.PRIVATE_UPSTREAMS.resolve(url.host, port_of(url))
    except ForbiddenAddress as error:
        raise Problem(f"{error}.") from error
    except (OSError, UnicodeError) as error:
        raise Problem(
            f"the host name {url.host} cannot be resolved. Is the address right?"
        ) from error
    return addresses


def _dial(upstream: Upstream) -> socket.socket:
    """Connect to the first address that accepts; raises OSError."""
    *others, last = _addresses(upstream)
    for address in others:
        with suppress(OSError):
            return socket.create_connection((address, port_of(upstream.url)), _CONNECT_SECONDS)
    return socket.create_connection((last, port_of(upstream.url)), _CONNECT_SECONDS)


def _check_key(upstream: Upstream) -> str:
    # OpenRouter shows its list of models without a key.
    path = "/key" if upstream.service == Service.OPENROUTER else "/models"
    response = _get(upstream, path)
    status = response.status_code
    if status in (401, 402, 403):
        words = read_message(response.content)
        reason = f": {words[:_MAX_CHARS]}" if words else "."
        raise Problem(f"the key was rejected with HTTP {status}{reason}")
    if 300 <= status < 400:
        place = response.headers.get("location", "another address")[:_MAX_CHARS]
        raise Problem(
            f"the upstream redirects to {place}. Redirects are not followed: enter that address."
        )
    if status >= 500:
        raise Problem(f"the upstream returned HTTP {status}. Try again later.")
    if status != 200:
        return f"unknown: the upstream returned HTTP {status}; the tool call will show it"
    return "accepted" if upstream.secrets() else "not sent, and not required"


def _get(upstream: Upstream, path: str) -> httpx.Response:
    try:
        return asyncio.run(_fetch(upstream, path))
    except (TimeoutError, httpx.TimeoutException) as error:
        raise Problem(f"the upstream did not answer within {_LIST_SECONDS:g} s.") from error
    except httpx.TransportError as error:
        # The error may quote the upstream.
        reason = Redactor(upstream.secrets()).redact_text(str(error))
        raise Problem(f"the connection was lost: {reason.rstrip('.')}.") from error


async def _fetch(upstream: Upstream, path: str) -> httpx.Response:
    """Read a whole response; the time limit also stops one that arrives byte by byte."""
    base = upstream.url.path.removesuffix("/chat/completions").removesuffix("/messages")
    url = upstream.url.copy_with(path=base + path)
    body = bytearray()
    async with (
        asyncio.timeout(_LIST_SECONDS),
        CheckedClient(
            timeout=_LIST_SECONDS,
            verify=httpx.create_ssl_context(),
            trust_env=settings.UPSTREAM_TRANSPORT == "httpx",
        ) as client,
        client.stream("GET", url, headers=list(upstream.headers)) as response,
    ):
        async for part in response.aiter_raw():
            body += part
            if len(body) > _LIST_BYTES:
                raise Problem(f"the response is larger than {_LIST_BYTES} bytes.")
    kept = {n: v for n, v in response.headers.items() if n in ("content-type", "location")}
    return httpx.Response(response.status_code, headers=kept, content=bytes(body))


async def _call(upstream: Upstream, snapshot: Snapshot, model: str) -> str:
    """Make one streamed tool call, in a snapshot whose only route is to this upstream."""
    row = RouteRow(
        id=0,
        pattern=_MODEL,
        upstream=upstream,
        upstream_model=model,
        listed_as="",
        max_tokens=None,
        context_window=None,
        thinking_tokens=None,
        reasoning=Reasoning.AUTO,
        parallel_calls=True,
        sample_calls=0,
        fallback_id=None,
    )
    exchange = Exchange("anthropic")
    exchange.request.model = _MODEL
    conversation = DIALECTS["anthropic"].parse(msgspec.json.encode(QUESTION))
    client = UpstreamClient(transport=settings.UPSTREAM_TRANSPORT)
    relay = Relay(client, replace(snapshot, routes=(row,)), exchange, set(), options=ReplyOptions())
    try:
        async with asyncio.timeout(_CALL_SECONDS):
            await relay.open(conversation)
            message = msgspec.json.decode(await relay.collect(), type=dict[str, Any])
    except TimeoutError as error:
        raise Problem(f"{model} did not finish within {_CALL_SECONDS:g} s.") from error
    except (GatewayError, FormatsError) as error:
        code = error.code if isinstance(error, GatewayError) else ErrorCode.TRANSFORMATION_FAILED
        hint = f" {_NO_VERSION}" if code == ErrorCode.UPSTREAM_NOT_FOUND else ""
        raise Problem(f"{model}: {error} ({code}).{hint}") from error
    finally:
        relay.close()
        await client.aclose()
    if trouble := trouble_with_calls(message["content"]):
        raise Problem(f"{model} {trouble}")
    assert exchange.answer.route is not None  # noqa: S101
    how = (
        f"read as {exchange.answer.family_read or exchange.answer.route.format.format}"
        if exchange.answer.rescued_calls
        else "as a structured call"
    )
    return f"{model} called {_TOOL['name']}, {how}"


def trouble_with_calls(blocks: list[dict[str, Any]]) -> str:
    """Say what is wrong with the answer to `QUESTION`; empty if it calls the tool."""
    called = [block["name"] for block in blocks if block["type"] == "tool_use"]
    if _TOOL["name"] in called:
        return ""
    if called:
        return f"called another tool than {_TOOL['name']}. Is it too small for tool calls?"
    return "answered without calling the tool. Does it support tool calls?"
