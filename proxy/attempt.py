"""One attempt at one upstream: the request goes out, and the answer begins or does not."""

import asyncio
from dataclasses import dataclass, field
from time import perf_counter

import httpx
from msgspec.structs import replace

from formats import (
    DIALECTS,
    STANDARD,
    Conversation,
    Event,
    Identity,
    MessageFailed,
    MessageStart,
    Notice,
    NoticeCode,
    Pipeline,
    ReplyOptions,
    Toolbox,
    build_pipeline,
)
from proxy.errors import ErrorCode, UpstreamFailed
from proxy.exchange import Exchange, Reading
from proxy.routing import Route
from proxy.upstream import (
    NOTHING_CARRIED,
    Answer,
    Carried,
    UpstreamClient,
    failure_of,
    redacted_event,
)

_WHOLE_BYTES = 64 * 1024 * 1024
"""Of an answer that comes as one JSON document, although a stream was asked for."""
_BLANK = b" \t\r\n\xef\xbb\xbf"  # white space, and the byte order mark


@dataclass(frozen=True, slots=True)
class Begun:
    """An answer that has begun: what was read of it, and how to read the rest."""

    route: Route
    pipeline: Pipeline
    answer: Answer
    events: list[Event]
    document: bytes | None = None
    """All of it, for a client that wants it as the upstream wrote it."""
    headers: dict[str, str] = field(default_factory=dict)
    """Of the upstream's, those that the client may see."""

    @property
    def is_empty(self) -> bool:
        """Whether it has ended with nothing in it."""
        return any(isinstance(e, Notice) and e.code is NoticeCode.EMPTY_ANSWER for e in self.events)


async def attempt(
    client: UpstreamClient,
    route: Route,
    conversation: Conversation,
    exchange: Exchange,
    *,
    options: ReplyOptions,
    carried: Carried,
) -> Begun:
    """Ask one upstream; raises UpstreamFailed when it does not begin to answer.

    An upstream of the client's own dialect gets what the client's request carried. It is asked for
    a whole answer if the client wants one and nothing in it can need rescue: then that goes on as
    it is. Any other is asked for a stream.
    """
    exchange.begin_attempt(route)
    upstream, began = route.upstream, perf_counter()
    is_same = upstream.dialect == exchange.dialect
    wants_stream = conversation.stream or not (is_same and route.format.format == STANDARD)
    if not route.parallel_calls:
        choice = replace(conversation.tool_choice, parallel=False)
        conversation = replace(conversation, tool_choice=choice)
    rendered = DIALECTS[upstream.dialect].render(conversation, route.target, stream=wants_stream)
    exchange.observe(rendered.notices)
    if route.context_warning is not None and len(rendered.body) > route.context_warning:
        detail = f"{len(rendered.body)} bytes > {route.context_warning}"
        exchange.observe([Notice(NoticeCode.CONTENT_LARGE, detail)])
    asked = perf_counter()
    exchange.own_time += asked - began
    try:
        answer, told = await client.open(
            route,
            rendered.body,
            carried if is_same else NOTHING_CARRIED,
            tokens=options.input_estimate,
        )
    except UpstreamFailed as refused:
        if not is_same:
            refused.refusal = None
        raise
    pipeline = build_pipeline(
        client=exchange.dialect,
        upstream=upstream.dialect,
        format_name=route.format.format,
        identity=Identity(
            token=exchange.token,
            message_id=exchange.message_id,
            model=exchange.model,
            taken_ids=conversation.call_ids(),
        ),
        toolbox=Toolbox(conversation.tools, aliases=rendered.aliases),
        max_calls=conversation.max_calls(),
        options=options,
        limits=route.limits,
        strict=route.strict,
        markers=route.markers,
    )
    try:
        async with asyncio.timeout(upstream.first_byte_timeout):
            skipped, start = await _read_start(answer, exchange)
            # Not by its content type, which many servers get wrong: no event begins like this.
            is_whole = start.startswith((b"{", b"["))
            exchange.reading = Reading(
                is_whole=is_whole,
                tools=conversation.tools,
                max_calls=conversation.max_calls(),
                taken_ids=conversation.call_ids(),
                aliases=rendered.aliases,
            )
            if is_whole == conversation.stream:
                pipeline.write_anew()  # the client wants the other form
            if is_whole:
                body = await _read_whole(_json_start(skipped, start), answer, exchange)
                events = pipeline.decode_whole(body)
            else:
                start = _stream_start(skipped, start)
                events = await _read_beginning(pipeline, start, answer, exchange)
    except (TimeoutError, httpx.TransportError) as error:
        answer.abort()
        raise failure_of(error, upstream) from error
    except BaseException:
        answer.abort()
        raise
    events = [redacted_event(event, upstream) for event in events]
    exchange.served_by = pipeline.served_by
    if failure := _failure(events):
        answer.finish()
        exchange.understood(events)
        raise exchange.error or exchange.failed(failure)
    exchange.has_begun, exchange.begun_after = True, perf_counter() - asked
    document = pipeline.encode(events) if is_whole and pipeline.is_verbatim else None
    if not pipeline.is_verbatim:  # what was to be delivered turned out to differ
        document = None
    return Begun(route, pipeline, answer, events, document, told if is_same else {})


async def _read_start(answer: Answer, exchange: Exchange) -> tuple[bytes, bytes]:
    """Blank bytes, and the first that say what follows; empty when there are none at all."""
    skipped = start = b""
    while not start and (data := await answer.read()) != b"":
        exchange.received(data or b"")
        start = (data or b"").lstrip(_BLANK)
        skipped += (data or b"")[: len(data or b"") - len(start)]
    return skipped, start


def _json_start(skipped: bytes, start: bytes) -> bytes:
    """All of it, unless there is more in front than JSON allows."""
    return start if skipped.strip() else skipped + start


def _stream_start(skipped: bytes, start: bytes) -> bytes:
    """All of it, unless there is more in front than a stream of events allows."""
    return start if b" " in skipped or b"\t" in skipped else skipped + start


async def _read_beginning(
    pipeline: Pipeline, start: bytes, answer: Answer, exchange: Exchange
) -> list[Event]:
    """The first events, once there is more than the announcement of a message."""
    events = pipeline.decode(start) if start else pipeline.decode_end()
    while not pipeline.done and not any(map(_is_content, events)):
        data = await answer.read()
        if data is not None:
            exchange.received(data)
            events += pipeline.decode(data) if data else pipeline.decode_end()
    return events


async def _read_whole(start: bytes, answer: Answer, exchange: Exchange) -> bytes:
    body = bytearray(start)
    while (data := await answer.read()) != b"":
        body += data or b""
        exchange.received(data or b"")
        if len(body) > _WHOLE_BYTES:
            raise UpstreamFailed(
                f"the upstream's answer is larger than {_WHOLE_BYTES} bytes",
                code=ErrorCode.BUFFER_LIMIT,
            )
    return bytes(body)


def _is_content(event: Event) -> bool:
    return not isinstance(event, MessageStart | Notice)


def _failure(events: list[Event]) -> MessageFailed | None:
    """Why there is no answer, if there is none at all."""
    content = [event for event in events if _is_content(event)]
    return content[0] if content and isinstance(content[0], MessageFailed) else None
