"""The table of error codes, its exceptions, and the page that is generated from it."""

import pytest

from formats import AnswerFault, ClientError, FailureKind, MessageFailed, TooComplex, UpstreamError
from proxy.errors import ERRORS, ErrorCode, GatewayError, UpstreamFailed, code_of
from tests.support.errors_page import PAGE, rewritten


def test_every_code_has_a_row_and_rows_are_sorted():
    assert list(ERRORS) == sorted(ErrorCode)


def test_errors_page_is_generated_from_the_table():
    page = PAGE.read_text()
    assert page == rewritten(page), (
        "docs/errors.md differs from proxy.errors.ERRORS: "
        "run `python -m tests.support.errors_page` to rewrite it"
    )


def test_an_error_has_the_values_of_its_row():
    error = GatewayError(ErrorCode.DRAINING, "restarting")
    assert (error.status, error.kind, error.source) == (503, FailureKind.OVERLOADED, "gateway")
    assert (error.should_retry, error.retry_after) == (True, 2)
    assert error.headers == {"connection": "close"}
    assert str(error) == "restarting"


def test_keywords_override_the_row():
    error = GatewayError(
        ErrorCode.MODEL_NOT_FOUND, "no model", source="client", should_retry=False, retry_after=0
    )
    assert (error.source, error.should_retry, error.retry_after) == ("client", False, 0)


def test_a_kind_without_a_status_has_the_usual_status_of_the_kind():
    error = UpstreamFailed(ErrorCode.UPSTREAM_ERROR, "no", kind=FailureKind.AUTHENTICATION)
    assert error.status == 401


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (ClientError("bad", path="messages[0]"), ErrorCode.INVALID_REQUEST, 400),
        (TooComplex("is too deep"), ErrorCode.JSON_TOO_COMPLEX, 400),
        (UpstreamError("no", status=500), ErrorCode.UPSTREAM_ERROR, 500),
        (UpstreamError("cut", fault=AnswerFault.TRUNCATED), ErrorCode.UPSTREAM_TRUNCATED, 502),
        (
            UpstreamError("prompt is too long: 9 > 8", kind=FailureKind.INVALID_REQUEST),
            ErrorCode.PROMPT_TOO_LONG,
            400,
        ),
    ],
)
def test_errors_of_formats_are_converted(error, code, status):
    converted = GatewayError.of(error)
    assert (converted.code, converted.status, str(converted)) == (code, status, str(error))


@pytest.mark.parametrize("fault", AnswerFault)
def test_every_fault_of_an_answer_has_a_code(fault):
    assert code_of(MessageFailed(FailureKind.TRANSFORMATION, "cut", fault=fault)) == fault.value


@pytest.mark.parametrize(
    ("kind", "code", "retry_same_upstream", "allows_fallback"),
    [
        (FailureKind.OVERLOADED, ErrorCode.UPSTREAM_OVERLOADED, True, True),
        (FailureKind.UPSTREAM, ErrorCode.UPSTREAM_TRUNCATED, True, True),
        (FailureKind.UPSTREAM, ErrorCode.UPSTREAM_ERROR, False, True),
        (FailureKind.INVALID_REQUEST, ErrorCode.UPSTREAM_REFUSED, False, False),
    ],
)
def test_a_failed_answer_is_retried_only_where_that_may_help(
    kind, code, retry_same_upstream, allows_fallback
):
    failed = UpstreamFailed.of_answer(MessageFailed(kind, "failed"), code)
    assert failed.retry_same_upstream is retry_same_upstream
    assert failed.allows_fallback is allows_fallback
