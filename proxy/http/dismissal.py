"""The answer to a request that did not get as far as the application.

Nobody knows in which dialect it was meant: the shape is one that clients of both understand.
"""

import json

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from proxy.errors import ERRORS, ErrorCode


class Dismissal(Exception):
    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = ERRORS[code].status

    def answer(self, request_id: str) -> bytes:
        spec = ERRORS[self.code]
        error = {"type": spec.kind, "message": str(self), "param": None, "code": spec.kind}
        body = json.dumps({"type": "error", "error": error, "request_id": request_id}).encode()
        lines = (
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
            f"request-id: {request_id}",
            f"x-request-id: {request_id}",
            f"x-athena-error: {self.code}",
            f"x-athena-error-source: {spec.source}",
            *(() if spec.should_retry else ("x-should-retry: false",)),
        )
        return STATUS_LINE[self.status] + "\r\n".join((*lines, "", "")).encode() + body
