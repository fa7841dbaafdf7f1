"""Why an exchange failed, in one plain sentence for people who did not write the gateway.

A pure function of the row: what the error's own message adds is shown beside it.
"""

from collections.abc import Mapping

from proxy.errors import ErrorCode
from proxy.models import Exchange, Outcome

SENTENCES: Mapping[ErrorCode, str] = {
    ErrorCode.AMBIGUOUS_CREDENTIALS: "The client sent two different keys.",
    ErrorCode.AT_CAPACITY: "The gateway was answering as many requests as it may.",
    ErrorCode.BODY_TOO_LARGE: "The request was larger than the gateway accepts.",
    ErrorCode.BUFFER_LIMIT: "More of the answer had to be held back than {format} may hold.",
    ErrorCode.CALL_BAD_HEADER: "The model began a tool call without naming a tool.",
    ErrorCode.CALL_INVALID_JSON: "The model wrote a tool call whose arguments are not valid JSON.",
    ErrorCode.CALL_MALFORMED: "The model wrote a tool call in a shape that {format} does not have.",
    ErrorCode.CALL_MISSING_NAME: "The model made a tool call without a name.",
    ErrorCode.CALL_NON_OBJECT_ARGS: "The model wrote a tool call whose arguments are no object.",
    ErrorCode.CALL_TRUNCATED: "The answer stopped in the middle of a tool call.",
    ErrorCode.CLIENT_STALLED: "The client stopped reading its answer, and was given up.",
    ErrorCode.DRAINING: "The gateway was being restarted.",
    ErrorCode.FIRST_BYTE_TIMEOUT: "{upstream} did not begin to answer in time.",
    ErrorCode.HEADERS_TOO_LARGE: "The request had too many headers, or too long ones.",
    ErrorCode.INTERNAL_ERROR: "The gateway itself has a defect here.",
    ErrorCode.INVALID_KEY: "The client's key is unknown, expired or revoked.",
    ErrorCode.INVALID_REQUEST: "The client's request is malformed.",
    ErrorCode.JSON_TOO_COMPLEX: "The request's JSON is nested too deeply, or has too many values.",
    ErrorCode.KEY_BUSY: "The client's key had as many requests open as it may have.",
    ErrorCode.KEY_RATE_LIMIT: "The client's key had made as many requests as a minute may have.",
    ErrorCode.KEY_REVOKED: "The client's key was revoked while the answer was on its way.",
    ErrorCode.KEYS_UNAVAILABLE: "The key could not be checked: the database was away.",
    ErrorCode.MALFORMED_HTTP: "What the client sent is not well-formed HTTP.",
    ErrorCode.METHOD_NOT_ALLOWED: "The client used a method that does not exist here.",
    ErrorCode.MODEL_NOT_ALLOWED: "The client's key may not use this model.",
    ErrorCode.MODEL_NOT_FOUND: "No route leads to this model.",
    ErrorCode.NOT_FOUND: "There is nothing at the address that the client asked for.",
    ErrorCode.NOT_READY: "The gateway had only just been started.",
    ErrorCode.PROMPT_TOO_LONG: "The conversation is too long for the model.",
    ErrorCode.REQUEST_TIMEOUT: "The client began a request and did not finish it.",
    ErrorCode.STREAM_TOO_LONG: "The answer of {upstream} did not come to an end in time.",
    ErrorCode.TRANSFORMATION_FAILED: "The model's answer could not be understood as {format}.",
    ErrorCode.UNSUPPORTED_ENCODING: "The client compressed its request, which is not supported.",
    ErrorCode.UPSTREAM_ANSWER_TOO_LARGE: "The answer was too large to be held in one piece.",
    ErrorCode.UPSTREAM_AUTH: "{upstream} refused the gateway's own key.",
    ErrorCode.UPSTREAM_BAD_CHUNK: "{upstream} sent something that is not valid JSON.",
    ErrorCode.UPSTREAM_BAD_UTF8: "{upstream} sent bytes that are no text.",
    ErrorCode.UPSTREAM_CONNECT_TIMEOUT: "{upstream} did not take the connection in time.",
    ErrorCode.UPSTREAM_DNS: "The address of {upstream} cannot be found.",
    ErrorCode.UPSTREAM_EMPTY: "{upstream} finished with nothing in its answer.",
    ErrorCode.UPSTREAM_ENCODING: "{upstream} compressed its answer although it was asked not to.",
    ErrorCode.UPSTREAM_ERROR: "{upstream} failed, and said so.",
    ErrorCode.UPSTREAM_EVENT_TOO_LARGE: "{upstream} sent an event that is too large to hold.",
    ErrorCode.UPSTREAM_FORBIDDEN_ADDRESS: "The gateway may not connect to where {upstream} is.",
    ErrorCode.UPSTREAM_IDLE: "{upstream} began to answer and then fell silent.",
    ErrorCode.UPSTREAM_IS_GATEWAY: "The address of {upstream} is that of the gateway itself.",
    ErrorCode.UPSTREAM_LINE_TOO_LONG: "{upstream} sent a line that does not end.",
    ErrorCode.UPSTREAM_MISCONFIGURED: "The gateway has no usable key for {upstream}.",
    ErrorCode.UPSTREAM_NO_PROGRESS: "{upstream} sent signs of life, and nothing else.",
    ErrorCode.UPSTREAM_NOT_FOUND: "{upstream} does not know this model.",
    ErrorCode.UPSTREAM_OVERLOADED: "{upstream} was overloaded.",
    ErrorCode.UPSTREAM_PROTOCOL: "What answers at the address of {upstream} does not speak HTTP.",
    ErrorCode.UPSTREAM_RATE_LIMIT: "{upstream} limits how much the gateway may ask.",
    ErrorCode.UPSTREAM_REDIRECT: "{upstream} has moved to another address.",
    ErrorCode.UPSTREAM_REFUSED: "{upstream} refused the request.",
    ErrorCode.UPSTREAM_RESET: "The connection to {upstream} was lost.",
    ErrorCode.UPSTREAM_TIMEOUT: "{upstream} ran out of time.",
    ErrorCode.UPSTREAM_TLS: "The certificate of {upstream} cannot be trusted.",
    ErrorCode.UPSTREAM_TOO_LARGE: "The request is larger than {upstream} accepts.",
    ErrorCode.UPSTREAM_TRUNCATED: "The answer of {upstream} broke off.",
    ErrorCode.UPSTREAM_UNREACHABLE: "Nothing answers at the address of {upstream}.",
    ErrorCode.WORKER_LOST: "The gateway's process was killed, or ran out of memory.",
}

_OUTCOMES: Mapping[str, str] = {
    Outcome.CLIENT_DISCONNECT: "The client left before the answer was complete.",
    Outcome.DRAINED: "The gateway was being restarted.",
}


def why(exchange: Exchange) -> str:
    """What went wrong; empty if nothing did."""
    if sentence := _OUTCOMES.get(exchange.outcome):
        return sentence
    if exchange.error_code:
        return sentence_of(
            exchange.error_code, upstream=exchange.upstream, format_name=exchange.format
        )
    if exchange.leaked_format:
        return (
            f"The client got tool calls as plain text: the model writes {exchange.leaked_format}, "
            f"and was read as {exchange.format}."
        )
    return ""


def sentence_of(code: str, *, upstream: str = "", format_name: str = "") -> str:
    """What an error's code means."""
    if code not in SENTENCES:
        return f"It failed with {code}, a code of another version of the gateway."
    sentence = SENTENCES[ErrorCode(code)].format(
        upstream=upstream or "the upstream", format=format_name or "its format"
    )
    return sentence if upstream else sentence[0].upper() + sentence[1:]
