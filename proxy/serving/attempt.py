"""One attempt at one upstream: sends the request and waits until its answer starts or fails."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter

import httpx
from msgspec.structs import replace

from formats import (
    AUTO,
    DIALECTS,
    STANDARD,
    AnswerFault,
    Conversation,
    Event,
    FailureKind,
    Identity,
    LimitExceeded,
    MessageFailed,
    MessageStart,
    Notice,
    NoticeCode,
    Pipeline,
    Rendered,
    ReplyOptions,
    Toolbox,
    UpstreamError,
    build_pipeline,
    hides_thinking,
    is_foreign,
)
from proxy.audit.exchange import DecodingSettings, Exchange
from proxy.configuration.routing import Route
from proxy.configuration.upstream import Upstream
from proxy.errors import ErrorCode, GatewayError, UpstreamFailed
from proxy.upstreams.answer_headers import forwarded_headers, header_value
from proxy.upstreams.client import (
    NOTHING_FORWARDED,
    Answer,
    Forwarded,
    UpstreamClient,
    redact_failures,
    transport_failure,
)
from proxy.upstreams.error_answers import foreign_body_message

_SELDOM_RESCUED = (STANDARD, AUTO)
"""Formats of models that are not known to write calls into their text."""
_MAX_BLANK_BYTES = 8 * 1024
"""Before an answer. Some upstreams keep a connection open with an empty line per second."""
_MAX_FOREIGN_BYTES = 64 * 1024
_MAX_BYTES_ON_LOOP = 64 * 1024
"""Size of a whole answer that is decoded on the event loop."""
_BLANK = b" \t\r\n\xef\xbb\xbf"  # white space and the byte order mark


@dataclass(frozen=True, slots=True)
class StartedAnswer:
    """An answer whose first content has arrived, and the rest of its body."""

    route: Route
    pipeline: Pipeline
    body: Answer
    events: list[Event]
    """Decoded so far."""
    document: bytes | None = None
    """The whole answer, if the client gets the document that the upstream wrote."""
    headers: dict[str, str] = field(default_factory=dict)
    """The upstream's headers that are forwarded to the client."""

    @property
    def is_empty(self) -> bool:
        """True if the answer has ended without content."""
        return self.pipeline.done and any(
            isinstance(e, Notice) and e.code is NoticeCode.EMPTY_ANSWER for e in self.events
        )


async def attempt(
    client: UpstreamClient,
    route: Route,
    conversation: Conversation,
    exchange: Exchange,
    *,
    options: ReplyOptions,
    forwarded: Forwarded,
    is_repeated: bool,
) -> StartedAnswer:
    """Wait for an answer to start; raises UpstreamFailed if it does not.

    `is_repeated`: this upstream has been sent the request before.

    An upstream of the client's dialect also gets the client's `forwarded` headers. It is asked for
    a document if the client wants one and its model is not known to write calls into its text: the
    document is then passed through, unless a call in it is rescued. Any other upstream is asked for
    a stream.
    """
    exchange.start_attempt(route)
    upstream, started_at = route.upstream, perf_counter()
    is_same_dialect = upstream.dialect == exchange.dialect
    if not route.parallel_calls:
        choice = replace(conversation.tool_choice, parallel=False)
        conversation = replace(conversation, tool_choice=choice)
    rendered = _render(route, conversation, exchange)
    asked_at = perf_counter()
    exchange.transfer.own_time += asked_at - started_at
    try:
        body = await client.open(
            route,
            rendered.body,
            forwarded if is_same_dialect else NOTHING_FORWARDED,
            tokens=options.input_estimate,
            is_repeated=is_repeated,
        )
    except UpstreamFailed as failure:
        if not is_same_dialect:
            failure.error_response = None
        raise
    headers = forwarded_headers(body.headers, upstream) if is_same_dialect else {}
    max_calls, taken_ids = conversation.max_calls(), conversation.call_ids()
    identity = Identity(
        token=exchange.token,
        message_id=exchange.message_id,
        model=exchange.request.model,
        taken_ids=taken_ids,
    )
    pipeline = build_pipeline(
        client=exchange.dialect,
        upstream=upstream.dialect,
        format_name=route.format.format,
        identity=identity,
        toolbox=Toolbox(conversation.tools, aliases=rendered.aliases),
        max_calls=max_calls,
        options=options,
        limits=route.limits,
        strict=route.strict,
        markers=route.markers,
        split_thinking=route.split_thinking,
        definition=route.definition,
        hides_thinking=hides_thinking(conversation, route.target),
        max_tokens=conversation.sampling.max_tokens,
    )
    reader = _FirstReads(body, exchange, upstream.first_byte_timeout)
    try:
        blank, start = await _read_start(reader)
        # Content types are often wrong; no server-sent event starts like this.
        is_document = start.startswith((b"{", b"["))
        exchange.answer.decoding = DecodingSettings(
            is_whole=is_document,
            tools=conversation.tools,
            max_calls=max_calls,
            taken_ids=taken_ids,
            aliases=rendered.aliases,
        )
        if not start or is_foreign(start, header_value(body.headers, b"content-type")):
            raise await _foreign_body(upstream, body, start, reader)
        if is_document == conversation.stream:
            pipeline.stop_passthrough()  # the client wants the other form
        if is_document:
            document = _document_start(blank, start)
            document = await _read_document(document, reader, route.limits.answer_bytes)
            events = await decode_whole(pipeline, document)
        else:
            events = await _read_first_events(pipeline, _stream_start(blank, start), reader)
        if pipeline.done:  # only the last event can be a failure
            events = redact_failures(events, upstream)
        exchange.answer.served_by = pipeline.served_by
        _check_failure(events, pipeline, exchange)
    except (TimeoutError, httpx.TransportError) as error:
        body.abort()
        raise transport_failure(error, upstream) from error
    except BaseException:
        body.abort()
        raise
    finally:
        reader.close()
    exchange.answer.seconds_to_start = perf_counter() - asked_at
    passed_through = pipeline.encode(events) if is_document and pipeline.is_passthrough else None
    if not pipeline.is_passthrough:  # encoding has found a difference
        passed_through = None
    return StartedAnswer(route, pipeline, body, events, passed_through, headers)


def _render(route: Route, conversation: Conversation, exchange: Exchange) -> Rendered:
    upstream = route.upstream
    is_same_dialect = upstream.dialect == exchange.dialect
    can_pass_through = is_same_dialect and route.format.format in _SELDOM_RESCUED
    rendered = DIALECTS[upstream.dialect].render(
        conversation, route.target, stream=conversation.stream or not can_pass_through
    )
    exchange.answer.add_events(rendered.notices)
    if route.context_warning is not None and len(rendered.body) > route.context_warning:
        detail = f"{len(rendered.body)} bytes > {route.context_warning}"
        exchange.answer.add_events([Notice(NoticeCode.CONTENT_LARGE, detail)])
    return rendered


def _check_failure(events: list[Event], pipeline: Pipeline, exchange: Exchange) -> None:
    """Raise the error of an answer that failed before any content."""
    first = next(filter(_is_content, events), None)
    if isinstance(first, MessageFailed):
        exchange.add_read(b"", events, perf_counter())
        exchange.update_usage(pipeline.usage)
        raise exchange.error or exchange.error_of(first)


class _FirstReads:
    """Reads an answer until it has started; fails after `seconds`."""

    def __init__(self, body: Answer, exchange: Exchange, seconds: float) -> None:
        self._body = body
        self._exchange = exchange
        self._is_late = False
        self._timer = asyncio.get_running_loop().call_later(seconds, self._on_timeout)

    async def read(self) -> bytes:
        """Return the next bytes, empty at the end; raises TimeoutError."""
        data = await self._body.read()
        if data is None or self._is_late:
            raise TimeoutError
        self._exchange.add_read(data, [], perf_counter())
        return data

    def close(self) -> None:
        self._timer.cancel()

    def _on_timeout(self) -> None:
        self._is_late = True
        self._body.interrupt_read()


async def _read_start(reader: _FirstReads) -> tuple[bytes, bytes]:
    """Return leading blank bytes, and the first others; those are empty if there are none."""
    blank, start = b"", b""
    while not start and (data := await reader.read()):
        start = data.lstrip(_BLANK)
        blank += data[: len(data) - len(start)]
        if len(blank) > _MAX_BLANK_BYTES:
            raise GatewayError.of(
                UpstreamError(
                    f"The upstream sent more than {_MAX_BLANK_BYTES} blank bytes and no answer",
                    kind=FailureKind.TRANSFORMATION,
                    fault=AnswerFault.BAD_CHUNK,
                )
            )
    return blank, start


async def _foreign_body(
    upstream: Upstream, body: Answer, start: bytes, reader: _FirstReads
) -> UpstreamFailed:
    """Return the error for a body that is not an answer; it names what came."""
    text = bytearray(start)
    with suppress(TimeoutError, httpx.TransportError):  # the beginning says enough
        while start and len(text) < _MAX_FOREIGN_BYTES and (data := await reader.read()):
            text += data
    message = foreign_body_message(upstream, body.status, body.headers, bytes(text))
    code = ErrorCode.UPSTREAM_BAD_CHUNK if start else ErrorCode.UPSTREAM_TRUNCATED
    return UpstreamFailed(code, message)


def _document_start(blank: bytes, start: bytes) -> bytes:
    """Keep the leading blank bytes if JSON allows them."""
    return start if blank.strip() else blank + start


def _stream_start(blank: bytes, start: bytes) -> bytes:
    """Keep the leading blank bytes if a stream of events allows them."""
    return start if b" " in blank or b"\t" in blank else blank + start


async def _read_first_events(pipeline: Pipeline, start: bytes, reader: _FirstReads) -> list[Event]:
    """Return the first events, once one of them has content."""
    events = pipeline.decode(start) if start else pipeline.decode_end()
    while not pipeline.done and not any(map(_is_content, events)):
        data = await reader.read()
        events += pipeline.decode(data) if data else pipeline.decode_end()
    return events


async def _read_document(start: bytes, reader: _FirstReads, max_bytes: int) -> bytes:
    document = bytearray(start)
    while len(document) <= max_bytes:
        data = await reader.read()
        if not data:
            return bytes(document)
        document += data
    raise GatewayError.of(LimitExceeded("answer_bytes", max_bytes))


async def decode_whole(pipeline: Pipeline, document: bytes) -> list[Event]:
    """Decode a whole answer; a long one in a thread.

    Every read of a stream is short, but a whole answer may have megabytes, and text full of markup
    takes three seconds of CPU for each. Other requests go on meanwhile.
    """
    if len(document) <= _MAX_BYTES_ON_LOOP:
        return pipeline.decode_whole(document)
    return await asyncio.to_thread(pipeline.decode_whole, document)


def _is_content(event: Event) -> bool:
    return not isinstance(event, MessageStart | Notice)
