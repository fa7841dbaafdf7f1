"""Explains in one sentence why an exchange failed, for readers who do not know the code.

The sentence depends only on the row. Pages show the error message next to it.
"""

from collections.abc import Mapping

from formats import AUTO, UNKNOWN_MARKUP
from proxy.errors import ERRORS, ErrorCode
from proxy.models import Exchange, Outcome

_OUTCOMES: Mapping[str, str] = {
    Outcome.CLIENT_DISCONNECT: "The client disconnected before the answer was complete.",
    Outcome.DRAINED: "The gateway was being restarted.",
}


def explain_failure(exchange: Exchange) -> str:
    """The sentence for an exchange; empty if it did not fail."""
    if sentence := _OUTCOMES.get(exchange.outcome):
        return sentence
    if exchange.error_code:
        return explain_code(
            exchange.error_code, upstream=exchange.upstream, format_name=exchange.format
        )
    if exchange.leaked_format == UNKNOWN_MARKUP:
        return (
            "The client got tool calls as plain text: the model writes a format that is not "
            f"known, and its answers are decoded as {exchange.format}."
        )
    if exchange.leaked_format and exchange.format == AUTO:
        return (
            f"The client got markup of {exchange.leaked_format} as plain text: auto reads only "
            "whole calls of tools that the client declared."
        )
    if exchange.leaked_format:
        return (
            f"The client got tool calls as plain text: the model writes {exchange.leaked_format}, "
            f"but its answers are decoded as {exchange.format}."
        )
    return ""


def explain_code(code: str, *, upstream: str = "", format_name: str = "") -> str:
    """The sentence for an error code."""
    if code not in ERRORS:
        return f"The error code {code} is from another version of the gateway."
    sentence = ERRORS[ErrorCode(code)].meaning.format(
        upstream=upstream or "the upstream", format=format_name or "its format"
    )
    return sentence if upstream else sentence[0].upper() + sentence[1:]
