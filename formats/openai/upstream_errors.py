"""An error inside an answer of Chat Completions: how it is told, and as an UpstreamError."""

import json
import re

from formats.errors import KIND_OF_NAME, FailureKind, UpstreamError, kind_of_status
from formats.openai.response_wire import ErrorBody

# What upstreams call an answer that did not succeed. The second is Gemini's word for a call that it
# could not write, the third DeepSeek's for one that it broke off.
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


def reported_error(error: ErrorBody | str, *, is_reported: bool = False) -> UpstreamError:
    """`is_reported`: the clients of this dialect read it as an error themselves."""
    if isinstance(error, str):
        return UpstreamError(error[:_ERROR_CHARS], is_reported=is_reported)
    code = str(error.code).removesuffix(".0")
    named = KIND_OF_NAME.get(code) or KIND_OF_NAME.get(str(error.type))
    numbered = kind_of_status(int(code)) if _STATUS.fullmatch(code) else None
    message = error.message or "The upstream reported an error without a message"
    if not isinstance(message, str):
        message = json.dumps(message, ensure_ascii=False)
    kind = named or numbered or FailureKind.UPSTREAM
    return UpstreamError(message[:_ERROR_CHARS], kind=kind, is_reported=is_reported)
