"""What an upstream's refusal says: a status and a body, of any shape → UpstreamError.

Messages are kept where they are words for a person; a page of HTML never is. Whatever an upstream
calls a conversation that does not fit, clients know one wording, and compact when they read it.
"""

import re
from http import HTTPStatus
from typing import Any

import msgspec

from formats.errors import AnswerFault, FailureKind, UpstreamError, kind_of_status
from formats.json_codec import decode

_MESSAGE_CHARS = 2000
_NESTING = 4
_json = msgspec.json.Decoder()


class _ErrorBody(msgspec.Struct):
    error: dict[str, Any]


_errors = msgspec.json.Decoder(_ErrorBody)

# Statuses whose meaning is the same for the client; all others become the kind's own.
_KEPT = frozenset({400, 404, 413, 429, 500, 502, 504, 529})
# The gateway's own credential or account was refused: nothing that the client can mend.
_OURS = {
    401: "The upstream refuses the gateway's credential",
    402: "The upstream refuses the gateway's account for lack of credit",
    403: "The upstream refuses the gateway's credential",
}

# An upstream may write anything, of any length: words are bounded, so that the work is linear.
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
# Anthropic's own sentence about `max_tokens`: Claude Code lowers its limit and tries again.
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
_LEAST = 256  # smaller numbers in such a message are versions, ranges and line numbers


def read_error_answer(
    status: int, body: bytes, *, tokens: int | None = None, window: int | None = None
) -> UpstreamError:
    """The error that an answer with this status is; `tokens` and `window` as `fitted_message`."""
    if status in _OURS:
        return UpstreamError(_OURS[status])
    message = read_message(body) or _phrase(status)
    kept = status if status in _KEPT else None
    return as_context_overflow(
        UpstreamError(message, kind=kind_of_status(status), status=kept),
        tokens=tokens,
        window=window,
    )


def as_context_overflow(
    error: UpstreamError, *, tokens: int | None = None, window: int | None = None
) -> UpstreamError:
    """The error itself, or the client's wording of it if the conversation did not fit."""
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
    """`prompt is too long: N tokens > M maximum`, with the upstream's own numbers if it has them.

    `tokens` is an estimate of the input and `window` what the route says of the model, for an
    upstream that names none. Numbers that contradict one another are left out.
    """
    said = message[:_SEARCHED_CHARS]
    if found := _COUNTED.search(said):
        return found[0].lower()
    numbers = [number for number in map(_number, _NUMBERS.findall(said)) if number >= _LEAST]
    maxima = [number for number in map(_number, _MAXIMUM.findall(said)) if number >= _LEAST]
    largest = max(numbers, default=0)
    below = [number for number in numbers if number < largest]
    limit = next((number for number in maxima if number < largest), max(below, default=0))
    if not limit:  # one number at most: it is the limit
        limit, largest = largest or window or 0, tokens or 0
    if limit and largest > limit:
        return f"{_TOO_LONG}: {largest} tokens > {limit} maximum"
    return f"{_TOO_LONG}: {message}"


def truncated_answer(missing: str) -> UpstreamError:
    """For an answer that ended without what ends one."""
    return UpstreamError(
        f"The upstream's answer ended without {missing}", fault=AnswerFault.TRUNCATED
    )


def unreadable_part(what: str, error: Exception) -> UpstreamError:
    """For a part of an answer that is not what its dialect has there."""
    fault = AnswerFault.BAD_CHUNK
    if isinstance(error, UnicodeDecodeError):
        fault = AnswerFault.BAD_UTF8
    return UpstreamError(
        f"The upstream sent {what} that cannot be read: {error}",
        kind=FailureKind.TRANSFORMATION,
        fault=fault,
    )


def check_utf8(data: bytes) -> None:
    """Raise UpstreamError where text is not UTF-8, also in parts that nobody looks at."""
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise unreadable_part("text", error) from error


def is_error_body(body: bytes) -> bool:
    """Whether it is a JSON object with an `error`, as both dialects have it."""
    try:
        return bool(_errors.decode(body).error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def read_message(body: bytes) -> str | None:
    """The sentence for a person in an error's body; None when there is none."""
    try:
        found = _find(decode(_json, body), _NESTING)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found[:_MESSAGE_CHARS] if found else None


def _find(value: Any, depth: int) -> str | None:
    """OpenAI, Anthropic, FastAPI, OpenRouter (whose own upstream's body is in `metadata.raw`)."""
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
        if found := _find(value.get(name), depth - 1):
            return found
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
