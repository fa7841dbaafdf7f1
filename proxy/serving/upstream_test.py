"""Whether an upstream can be used, found out step by step, in the order in which it can fail.

The last step is a whole request, asked and read as any client's would be. Nothing of it is stored,
and no step shows the key: what others say is redacted before it is told.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Literal

import httpx
import msgspec
from django.conf import settings

from formats import DIALECTS, FormatsError, ReplyOptions, read_error_answer
from proxy.audit.exchange import Exchange
from proxy.configuration.snapshot import RouteRow, Snapshot
from proxy.configuration.upstream import Upstream, port_of
from proxy.errors import ErrorCode, GatewayError
from proxy.models import Reasoning, Service
from proxy.security.egress import Forbidden
from proxy.security.redaction import Redactor
from proxy.serving.relay import Relay
from proxy.upstreams.client import UpstreamClient
from proxy.upstreams.httpx_client import CheckedClient

LIST, CALL = "list of models", "streamed tool call"
_CONNECT_SECONDS = 5.0
_LIST_SECONDS = 10.0
_CALL_SECONDS = 60.0
_LIST_BYTES = 8 * 1024 * 1024
_MOST_MODELS = 5000
_MOST_CHARS = 200
_ASKED = "probe"  # the name of the model, on this side
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
    "model": _ASKED,
    "max_tokens": 1000,
    "stream": True,
    "tools": [_TOOL],
    "messages": [{"role": "user", "content": "Call report_health with the state `good`."}],
}


class Trouble(Exception):
    """What is wrong, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    state: Literal["ok", "wrong", "skipped"]
    detail: str
    ms: float = 0


def probe(upstream: Upstream, snapshot: Snapshot, *, model: str = "") -> Iterator[Step]:
    """Every step as it ends. Those behind one that went wrong are skipped.

    `model` is the one that is asked to call a tool; without one, the first of the list.
    """
    found: list[str] = []

    def ask_for_models() -> str:
        found.extend(models_of(upstream))
        if len(found) == 1:
            return "1 model"
        return f"{len(found)} models" if found else "an empty list"

    def ask_for_call() -> str:
        asked = model or next(iter(found), "")
        if not asked:
            raise Trouble("there is no model to ask. Name one.")
        return asyncio.run(_call(upstream, snapshot, asked))

    steps: dict[str, Callable[[], str]] = {"settings": lambda: _check_settings(upstream)}
    if settings.UPSTREAM_TRANSPORT != "httpx":  # which may go through a proxy
        steps |= {
            "name": lambda: _resolve(upstream),
            "connection": lambda: _connect(upstream),
            "TLS": lambda: _shake_hands(upstream),
        }
    steps |= {
        "key": lambda: _check_key(upstream),
        LIST: ask_for_models,
        CALL: ask_for_call,
    }
    redactor, is_well = Redactor(upstream.secrets()), True
    for name, check in steps.items():
        if not is_well:
            yield Step(name, "skipped", "")
            continue
        began = perf_counter()
        try:
            state, detail = "ok", check()
        except Trouble as trouble:
            # Many an upstream has no list of models, and works all the same.
            is_well = name == LIST and bool(model)
            state, detail = "wrong", str(trouble)
        ms = (perf_counter() - began) * 1000
        yield Step(name, "ok" if state == "ok" else "wrong", redactor.redact_text(detail), ms)


def models_of(upstream: Upstream) -> list[str]:
    """The upstream's own names of its models, in its order; raises Trouble."""
    _check_settings(upstream)
    response = _get(upstream, "/models")
    if response.status_code != 200:
        hint = " Is the version, such as /v1, missing?" if response.status_code == 404 else ""
        raise Trouble(f"it answers {response.status_code} to the list of models.{hint}")
    try:
        listed = msgspec.json.decode(response.content, type=dict[str, Any])["data"]
        names = [entry["id"] for entry in listed if isinstance(entry["id"], str)]
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError) as error:
        raise Trouble("its list of models cannot be read.") from error
    # A longer name is none that a route could have.
    return [name for name in names if 0 < len(name) <= _MOST_CHARS][:_MOST_MODELS]


def _check_settings(upstream: Upstream) -> str:
    if upstream.trouble:
        raise Trouble(
            f"{upstream.trouble}. A variable must be set for every process: put it into .env."
        )
    return f"{upstream.dialect} dialect at {upstream.url}"


def _resolve(upstream: Upstream) -> str:
    return ", ".join(_addresses(upstream))


def _connect(upstream: Upstream) -> str:
    port = port_of(upstream.url)
    try:
        _dial(upstream).close()
    except TimeoutError as error:
        raise Trouble(f"nothing answers at port {port}. Is a firewall in between?") from error
    except OSError as error:
        raise Trouble(f"port {port} cannot be reached: {error.strerror or error}.") from error
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
        raise Trouble(f"its certificate is not trusted: {error.verify_message}.") from error
    except OSError as error:
        raise Trouble(f"no TLS is spoken there: {error.strerror or error}.") from error
    ends = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    return f"{version}, certificate valid until {datetime.fromtimestamp(ends, UTC):%Y-%m-%d}"


def _addresses(upstream: Upstream) -> list[str]:
    """Where it is; each is one that the gateway may connect to."""
    url = upstream.url
    try:
        found: list[str] = settings.PRIVATE_UPSTREAMS.resolve(url.host, port_of(url))
    except Forbidden as error:
        raise Trouble(f"{error}.") from error
    except (OSError, UnicodeError) as error:
        raise Trouble(f"the name {url.host} cannot be resolved. Is the address right?") from error
    return found


def _dial(upstream: Upstream) -> socket.socket:
    """A connection to the first of its addresses that takes one; raises OSError."""
    *others, last = _addresses(upstream)
    for address in others:
        with suppress(OSError):
            return socket.create_connection((address, port_of(upstream.url)), _CONNECT_SECONDS)
    return socket.create_connection((last, port_of(upstream.url)), _CONNECT_SECONDS)


def _check_key(upstream: Upstream) -> str:
    # OpenRouter shows its list of models to anybody.
    path = "/key" if upstream.service == Service.OPENROUTER else "/models"
    response = _get(upstream, path)
    status = response.status_code
    if status in (401, 402, 403):
        said = read_error_answer(status, response.content, tokens=0, window=None)
        raise Trouble(f"it refuses the key ({status}): {said}")
    if 300 <= status < 400:
        place = response.headers.get("location", "elsewhere")[:_MOST_CHARS]
        raise Trouble(f"it redirects to {place}, which is not followed: enter that address.")
    if status >= 500:
        raise Trouble(f"it is not well itself: {status}.")
    if status != 200:
        return f"not known yet: it answers {status}, and the tool call will tell"
    return "accepted" if upstream.secrets() else "none is sent, and none is asked for"


def _get(upstream: Upstream, path: str) -> httpx.Response:
    try:
        return asyncio.run(_fetch(upstream, path))
    except (TimeoutError, httpx.TimeoutException) as error:
        raise Trouble("it did not answer in time.") from error
    except httpx.TransportError as error:
        # It may quote what the other side said.
        said = Redactor(upstream.secrets()).redact_text(str(error))
        raise Trouble(f"the connection was lost: {said.rstrip('.')}.") from error


async def _fetch(upstream: Upstream, path: str) -> httpx.Response:
    """The whole answer, in time: one that comes byte by byte must not hold a thread for long."""
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
                raise Trouble(f"its answer is larger than {_LIST_BYTES} bytes.")
    place = {n: v for n, v in response.headers.items() if n == "location"}
    return httpx.Response(response.status_code, headers=place, content=bytes(body))


async def _call(upstream: Upstream, snapshot: Snapshot, model: str) -> str:
    """One streamed tool call, with no route but the one to this upstream and model."""
    row = RouteRow(
        id=0,
        pattern=_ASKED,
        upstream=upstream,
        upstream_model=model,
        listed_as="",
        max_tokens=None,
        context_window=None,
        reasoning=Reasoning.AUTO,
        parallel_calls=True,
        sample_calls=0,
        fallback_id=None,
    )
    exchange = Exchange("anthropic")
    exchange.request.model = _ASKED
    conversation = DIALECTS["anthropic"].parse(msgspec.json.encode(QUESTION))
    client = UpstreamClient(transport=settings.UPSTREAM_TRANSPORT)
    relay = Relay(client, replace(snapshot, routes=(row,)), exchange, set(), options=ReplyOptions())
    try:
        async with asyncio.timeout(_CALL_SECONDS):
            await relay.open(conversation)
            await relay.collect()
    except TimeoutError as error:
        raise Trouble(f"{model} did not finish within {_CALL_SECONDS:g} s.") from error
    except (GatewayError, FormatsError) as error:
        code = error.code if isinstance(error, GatewayError) else ErrorCode.TRANSFORMATION_FAILED
        raise Trouble(f"{model}: {error} ({code}).") from error
    finally:
        relay.close()
        await client.aclose()
    if not exchange.answer.tool_calls:
        raise Trouble(f"{model} answered without calling the tool. Is it able to?")
    assert exchange.answer.route is not None  # noqa: S101
    how = (
        f"read as {exchange.answer.route.format.format}"
        if exchange.answer.rescued_calls
        else "as a structured call"
    )
    return f"{model} called report_health, {how}"
