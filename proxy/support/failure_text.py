"""Why an exchange failed, in one plain sentence for people who did not write the gateway.

A pure function of the row: what the error's own message adds is shown beside it.
"""

from collections.abc import Mapping

from proxy.errors import ERRORS, ErrorCode
from proxy.models import Exchange, Outcome

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
    if code not in ERRORS:
        return f"It failed with {code}, a code of another version of the gateway."
    sentence = ERRORS[ErrorCode(code)].meaning.format(
        upstream=upstream or "the upstream", format=format_name or "its format"
    )
    return sentence if upstream else sentence[0].upper() + sentence[1:]
