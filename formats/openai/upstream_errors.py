"""Turns an error object inside a Chat Completions answer into an UpstreamError."""

import json
import re

from formats.errors import KIND_OF_NAME, FailureKind, UpstreamError, kind_of_status
from formats.openai.response_wire import ErrorBody

# Finish reasons of a failed answer. The second is Gemini's for a call that it could not write, the
# third DeepSeek's for an answer that it aborted.
FAILED = frozenset(
    {
        "error",
        "malformed_function_call",
        "insufficient_system_resource",
        "abort",
        "network_error",
        "timeout",
    }
)
_ERROR_CHARS = 2000
_STATUS = re.compile("[1-5][0-9]{2}")


def reported_error(error: ErrorBody | str) -> UpstreamError:
    if isinstance(error, str):
        return UpstreamError(error[:_ERROR_CHARS])
    code = str(error.code).removesuffix(".0")
    kind_of_name = KIND_OF_NAME.get(code) or KIND_OF_NAME.get(str(error.type))
    kind_of_code = kind_of_status(int(code)) if _STATUS.fullmatch(code) else None
    message = error.message or "The upstream reported an error without a message"
    if not isinstance(message, str):
        message = json.dumps(message, ensure_ascii=False)
    kind = kind_of_name or kind_of_code or FailureKind.UPSTREAM
    return UpstreamError(message[:_ERROR_CHARS], kind=kind)
