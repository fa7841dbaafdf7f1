"""An error inside an answer of Chat Completions → UpstreamError."""

import json
import re

from formats.errors import KIND_OF_NAME, FailureKind, UpstreamError, kind_of_status
from formats.openai.chunks import ErrorBody

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
