"""One attempt at one upstream: the request goes out, and the answer begins or does not."""

import asyncio
from dataclasses import dataclass, field
from time import perf_counter

import httpx
from msgspec.structs import replace

from formats import (
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
    ReplyOptions,
    Toolbox,
    UpstreamError,
    build_pipeline,
)
from proxy.audit.exchange import Exchange, Reading
from proxy.configuration.routing import Route
from proxy.errors import GatewayError, UpstreamFailed
from proxy.upstreams.client import (
    NOTHING_CARRIED,
    Answer,
    Carried,
    UpstreamClient,
    failure_of,
    redacted_events,
)
from proxy.upstreams.error_answers import told_headers

_BLANK_BYTES = 8 * 1024
"""In front of an answer. Some upstreams keep a connection open with an empty line a second."""
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
    carried: Carried,
) -> Begun:
    """Ask one upstream; raises UpstreamFailed when it does not begin to answer.

    An upstream of the client's own dialect gets what the client's request carried. It is asked for
    a whole answer if the client wants one and nothing in it can need rescue: then that goes on as
    it is. Any other is asked for a stream.
    """
    exchange.start_attempt(route)
    upstream, began = route.upstream, perf_counter()
    is_same = upstream.dialect == exchange.dialect
    wants_stream = conversation.stream or not (is_same and route.format.format == STANDARD)
    if not route.parallel_calls:
        choice = replace(conversation.tool_choice, parallel=False)
        conversation = replace(conversation, tool_choice=choice)
    rendered = DIALECTS[upstream.dialect].render(conversation, route.target, stream=wants_stream)
    exchange.answer.add_events(rendered.notices)
    if route.context_warning is not None and len(rendered.body) > route.context_warning:
        detail = f"{len(rendered.body)} bytes > {route.context_warning}"
        exchange.answer.add_events([Notice(NoticeCode.CONTENT_LARGE, detail)])
    asked = perf_counter()
    exchange.transfer.own_time += asked - began
    try:
        answer = await client.open(
            route,
            rendered.body,
            carried if is_same else NOTHING_CARRIED,
            tokens=options.input_estimate,
        )
    except UpstreamFailed as refused:
        if not is_same:
            refused.refusal = None
        raise
    told = told_headers(answer.headers, upstream) if is_same else {}
    max_calls, taken_ids = conversation.max_calls(), conversation.call_ids()
    pipeline = build_pipeline(
        client=exchange.dialect,
        upstream=upstream.dialect,
        format_name=route.format.format,
        identity=Identity(
            token=exchange.token,
            message_id=exchange.message_id,
            model=exchange.request.model,
            taken_ids=taken_ids,
        ),
        toolbox=Toolbox(conversation.tools, aliases=rendered.aliases),
        max_calls=max_calls,
        options=options,
        limits=route.limits,
        strict=route.strict,
        markers=route.markers,
        redact=upstream.conceal,
    )
    source = _Beginning(answer, exchange, upstream.first_byte_timeout)
    try:
        skipped, start = await _read_start(source)
        # Not by its content type, which many servers get wrong: no event begins like this.
        is_whole = start.startswith((b"{", b"["))
        exchange.answer.reading = Reading(
            is_whole=is_whole,
            tools=conversation.tools,
            max_calls=max_calls,
            taken_ids=taken_ids,
            aliases=rendered.aliases,
        )
        if is_whole == conversation.stream:
            pipeline.stop_passthrough()  # the client wants the other form
        if is_whole:
            beginning, most = _json_start(skipped, start), route.limits.answer_bytes
            events = pipeline.decode_whole(await _read_whole(beginning, source, most))
        else:
            events = await _read_beginning(pipeline, _stream_start(skipped, start), source)
    except (TimeoutError, httpx.TransportError) as error:
        answer.abort()
        raise failure_of(error, upstream) from error
    except BaseException:
        answer.abort()
        raise
    finally:
        source.release()
    if pipeline.done:  # only its last event can be a failure
        events = redacted_events(events, upstream)
    exchange.answer.served_by = pipeline.served_by
    if failure := _failure(events):
        answer.abort()
        exchange.add_events(events)
        exchange.update_usage(pipeline.usage)
        raise exchange.error or exchange.error_of(failure)
    exchange.answer.seconds_to_start = perf_counter() - asked
    document = pipeline.encode(events) if is_whole and pipeline.is_passthrough else None
    if not pipeline.is_passthrough:  # what was to be delivered turned out to differ
        document = None
    return Begun(route, pipeline, answer, events, document, told)


class _Beginning:
    """What is read of an answer until it has begun, for so many seconds."""

    def __init__(self, answer: Answer, exchange: Exchange, seconds: float) -> None:
        self._answer = answer
        self._exchange = exchange
        self._is_late = False
        self._timer = asyncio.get_running_loop().call_later(seconds, self._end)

    async def read(self) -> bytes:
        """The next bytes, empty at the end; raises TimeoutError."""
        data = await self._answer.read()
        if data is None or self._is_late:
            raise TimeoutError
        self._exchange.add_received(data)
        return data

    def release(self) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        self._is_late = True
        self._answer.interrupt()


async def _read_start(source: _Beginning) -> tuple[bytes, bytes]:
    """Blank bytes, and the first that say what follows; empty when there are none at all."""
    skipped, start = b"", b""
    while not start and (data := await source.read()):
        start = data.lstrip(_BLANK)
        skipped += data[: len(data) - len(start)]
        if len(skipped) > _BLANK_BYTES:
            raise GatewayError.of(
                UpstreamError(
                    f"The upstream sent more than {_BLANK_BYTES} blank bytes and no answer",
                    kind=FailureKind.TRANSFORMATION,
                    fault=AnswerFault.BAD_CHUNK,
                )
            )
    return skipped, start


def _json_start(skipped: bytes, start: bytes) -> bytes:
    """All of it, unless there is more in front than JSON allows."""
    return start if skipped.strip() else skipped + start


def _stream_start(skipped: bytes, start: bytes) -> bytes:
    """All of it, unless there is more in front than a stream of events allows."""
    return start if b" " in skipped or b"\t" in skipped else skipped + start


async def _read_beginning(pipeline: Pipeline, start: bytes, source: _Beginning) -> list[Event]:
    """The first events, once there is more than the announcement of a message."""
    events = pipeline.decode(start) if start else pipeline.decode_end()
    while not pipeline.done and not any(map(_is_content, events)):
        data = await source.read()
        events += pipeline.decode(data) if data else pipeline.decode_end()
    return events


async def _read_whole(start: bytes, source: _Beginning, most: int) -> bytes:
    body = bytearray(start)
    while len(body) <= most:
        data = await source.read()
        if not data:
            return bytes(body)
        body += data
    raise GatewayError.of(LimitExceeded("answer_bytes", most))


def _is_content(event: Event) -> bool:
    return not isinstance(event, MessageStart | Notice)


def _failure(events: list[Event]) -> MessageFailed | None:
    """Why there is no answer, if there is none at all."""
    first = next(filter(_is_content, events), None)
    return first if isinstance(first, MessageFailed) else None
