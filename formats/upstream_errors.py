"""Turns an upstream's error answer, a status and a body of any shape, into an UpstreamError.

The upstream's message is kept if it is readable text, not an HTML page. A conversation
that does not fit the context window gets the one wording that clients recognise: they compact the
conversation when they see it.
"""

import re
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

from formats.errors import (
    AnswerFault,
    FailureKind,
    UpstreamError,
    kind_of_status,
    message_with_id,
)
from formats.foreign_body import one_line
from formats.json_codec import decode, encode, encode_string

_T = TypeVar("_T")

_MESSAGE_CHARS = 2000
_NESTING = 4
_json = msgspec.json.Decoder()


class _ErrorBody(msgspec.Struct):
    error: dict[str, Any]


_errors = msgspec.json.Decoder(_ErrorBody)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])

# Statuses that mean the same for the client; all others are replaced by the status of the kind.
_KEPT = frozenset({400, 404, 413, 429, 500, 502, 504, 529})
# The upstream refused the gateway's credential or account, which the client cannot fix.
_GATEWAY_REFUSED = {
    401: "refuses the gateway's credential",
    402: "refuses the gateway's account for lack of credit",
    403: "refuses the gateway's credential",
}

# Messages may have any length: repetitions are bounded, so that matching takes linear time.
_OVERFLOW = re.compile(
    r"""
      context[_ ](?:length|window|size|limit)\W{1,40}\b(?:\w{1,100}\b\W{1,40}\b){0,3}?exceed
    | exceed\w{0,20}\b\W{1,40}\b(?:\w{1,100}\b\W{1,40}\b){0,8}?
      (?:context|token[ ]limit|token[ ]count|number[ ]of[ ]tokens)
    | exceed\w{0,20}\b\W{1,40}\bmax(?:imum)?[ ]length
    | maximum[ ](?:context|prompt|model|input)[ ](?:length|size|window)
    | context_length_exceeded | exceed_context_size | model_context_window_exceeded
    | (?:prompt|input|inputs?[ ]text|request|messages?)[ ](?:is|are)[ ]too[ ]long
    | longer[ ]than[ ]the[ ](?:model|maximum|context)
    | too[ ]many[ ](?:input[ ])?tokens | too[ ]large[ ]for[ ]model[ ]with
    | range[ ]of[ ]input[ ]length
    | reduce[ ]the[ ]length[ ]of[ ](?:the[ ])?(?:messages|prompt|input|either)
    | greater[ ]than[ ]the[ ]context[ ]length
    | tokens`?[ ]\+[ ]`?max_new_tokens
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Anthropic's message about `max_tokens`: Claude Code lowers its limit and retries.
_OUTPUT_TOO_LARGE = "input length and `max_tokens` exceed context limit"
_TOO_LONG = "prompt is too long"
_COUNTED = re.compile(rf"{_TOO_LONG}: \d+ tokens > \d+ maximum", re.IGNORECASE)
_NUMBER = r"(\d{1,3}(?:[,_]\d{3})+|\d+)"
_NUMBERS = re.compile(_NUMBER)
_MAXIMUM = re.compile(
    rf"(?:max[a-z_]{{0,20}}+|limit|allowed|available|context|window|<=|cannot exceed)"
    rf"[^\d]{{0,60}}?{_NUMBER}",
    re.IGNORECASE,
)
_SEARCHED_CHARS = 16 * 1024
_MIN_TOKENS = 256  # smaller numbers in such a message are versions, ranges and line numbers


def read_error_answer(
    status: int,
    body: bytes,
    *,
    upstream: str = "The upstream",
    otherwise: str = "",
    tokens: int | None = None,
    window: int | None = None,
) -> UpstreamError:
    """Read an error answer; `tokens` and `window` are explained at `overflow_message`.

    `upstream` names it in messages, and `otherwise` is the message of a body that has none.
    """
    if status in _GATEWAY_REFUSED:
        return UpstreamError(f"{upstream} {_GATEWAY_REFUSED[status]} (HTTP {status})")
    words = read_message(body)
    if words and status == 404:  # "Not Found" alone would seem to be about the gateway's address
        words = f"{upstream} returned HTTP 404: {words}"
    message = words or otherwise or _phrase(status)
    kept = status if status in _KEPT else None
    return as_context_overflow(
        UpstreamError(message, kind=kind_of_status(status), status=kept),
        tokens=tokens,
        window=window,
    )


def as_context_overflow(
    error: UpstreamError, *, tokens: int | None = None, window: int | None = None
) -> UpstreamError:
    """Return the error; if the conversation did not fit, in the wording that clients recognise."""
    message = str(error)
    if error.kind in (FailureKind.RATE_LIMIT, FailureKind.TRANSFORMATION):
        return error
    if _OUTPUT_TOO_LARGE in message:
        return UpstreamError(message, kind=FailureKind.INVALID_REQUEST)
    if not _OVERFLOW.search(message, 0, _SEARCHED_CHARS):
        return error
    return UpstreamError(
        overflow_message(message, tokens=tokens, window=window), kind=FailureKind.INVALID_REQUEST
    )


def overflow_message(message: str, *, tokens: int | None = None, window: int | None = None) -> str:
    """Return `prompt is too long: N tokens > M maximum`, with the upstream's numbers if given.

    For an upstream that gives none, `tokens` is an estimate of the input and `window` the route's
    context window. Contradictory numbers are left out.
    """
    text = message[:_SEARCHED_CHARS]
    if counted := _COUNTED.search(text):
        return counted[0].lower()
    numbers = [number for number in map(_number, _NUMBERS.findall(text)) if number >= _MIN_TOKENS]
    maxima = [number for number in map(_number, _MAXIMUM.findall(text)) if number >= _MIN_TOKENS]
    largest = max(numbers, default=0)
    below = [number for number in numbers if number < largest]
    limit = next((number for number in maxima if number < largest), max(below, default=0))
    if not limit:  # a single number is the limit
        limit, largest = largest or window or 0, tokens or 0
    if limit and largest > limit:
        return f"{_TOO_LONG}: {largest} tokens > {limit} maximum"
    return f"{_TOO_LONG}: {message}"


def truncated_answer(missing: str) -> UpstreamError:
    """Return the error for an answer that ended without `missing`."""
    return UpstreamError(
        f"The upstream's answer ended without {missing}", fault=AnswerFault.TRUNCATED
    )


def unreadable_part(what: str, error: Exception) -> UpstreamError:
    """Return the error for a part of an answer that is not valid in its dialect."""
    fault = AnswerFault.BAD_CHUNK
    if isinstance(error, UnicodeDecodeError):
        fault = AnswerFault.BAD_UTF8
    return UpstreamError(
        f"The upstream sent {what} that cannot be read: {error}",
        kind=FailureKind.TRANSFORMATION,
        fault=fault,
    )


_UPSTREAM_SENT = "The upstream sent "
_NO_ANSWER = ("an error instead of an answer: ", "JSON that is not an answer: ")


def with_upstream_name(message: str, name: str) -> str:
    """Name the upstream in a message of `foreign_document`; other messages stay as they are."""
    if message.startswith(tuple(_UPSTREAM_SENT + what for what in _NO_ANSWER)):
        return f"The upstream {name} sent {message.removeprefix(_UPSTREAM_SENT)}"
    return message


def foreign_document(body: bytes) -> UpstreamError:
    """Return the error for JSON with status 200 that is not an answer; it names what came."""
    if message := read_message(body):
        return UpstreamError(f"{_UPSTREAM_SENT}{_NO_ANSWER[0]}{message}")
    return UpstreamError(
        f"{_UPSTREAM_SENT}{_NO_ANSWER[1]}{one_line(body.decode())}",
        kind=FailureKind.TRANSFORMATION,
        fault=AnswerFault.BAD_CHUNK,
    )


def read_document(decoder: msgspec.json.Decoder[_T], body: bytes, what: str) -> _T:
    """Decode a whole answer, such as "a message"; raises UpstreamError if it is not one."""
    check_utf8(body)
    try:
        return decode(decoder, body)
    except msgspec.ValidationError as error:
        raise foreign_document(body) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable_part(what, error) from error


def check_utf8(data: bytes) -> None:
    """Raise UpstreamError if the data is not UTF-8, even in fields that are ignored."""
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise unreadable_part("text", error) from error


def is_error_body(body: bytes) -> bool:
    """Return whether a body is a JSON object with an `error`, as in both dialects."""
    try:
        return bool(_fields.decode(body) and _errors.decode(body).error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def with_request_id(body: bytes, request_id: str, *, otherwise: str) -> bytes:
    """Return an error body of either dialect with the gateway's request id, also in its message.

    `is_error_body` must be true. Every other value keeps its bytes; the upstream's own id becomes
    `upstream_request_id`. `otherwise` is the message of an error that has none.
    """
    fields = _fields.decode(body)
    error = _fields.decode(fields["error"])
    message = _json.decode(error.get("message", b"null"))
    if message is None or isinstance(message, str):  # anything else has no end to write it at
        named = message_with_id(message or otherwise, request_id)
        error["message"] = msgspec.Raw(encode_string(named))
    if "request_id" in fields:
        fields["upstream_request_id"] = fields["request_id"]
    fields["error"] = msgspec.Raw(encode(error))
    fields["request_id"] = msgspec.Raw(encode_string(request_id))
    return encode(fields)


def read_message(body: bytes) -> str | None:
    """Return the human-readable message of an error body; None if there is none."""
    try:
        message = _find(decode(_json, body), _NESTING)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return message[:_MESSAGE_CHARS] if message else None


def _find(value: Any, depth: int) -> str | None:
    """Find the message in bodies of OpenAI, Anthropic, FastAPI and OpenRouter.

    OpenRouter has the body of its own upstream in `metadata.raw`.
    """
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, list) and value and depth:
        return _find(value[0], depth - 1)
    if not isinstance(value, dict) or not depth:
        return None
    metadata = value.get("metadata")
    if isinstance(metadata, dict) and isinstance(raw := metadata.get("raw"), str):
        inner = read_message(raw.encode("utf-8", "replace")) or _plain(raw)
        outer = _find(value.get("message"), depth - 1)
        return f"{outer}: {inner}" if outer and inner else outer or inner
    for name in ("error", "message", "detail", "msg", "errors"):
        if message := _find(value.get(name), depth - 1):
            return message
    return None


def _plain(text: str) -> str | None:
    return (
        None if not text.strip() or "<html" in text.lower() or "<!doctype" in text.lower() else text
    )


def _phrase(status: int) -> str:
    try:
        return f"The upstream answered {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"The upstream answered {status}"


def _number(digits: str) -> int:
    return int(digits.replace(",", "").replace("_", "")[:12])
