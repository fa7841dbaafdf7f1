"""Error responses of the API: `detail` is a sentence; `fields` lists the invalid fields, if any."""

import json
import logging
from collections.abc import Iterable
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS
from django.core.exceptions import ValidationError as ModelValidationError
from rest_framework.exceptions import APIException, ErrorDetail, ValidationError
from rest_framework.response import Response
from rest_framework.views import exception_handler

from proxy.database.outage import OUTAGE_ERRORS, OUTAGE_MESSAGE, safe_reason

logger = logging.getLogger("athena.api")

_NOT_A_FIELD = frozenset({"", "detail", "non_field_errors", NON_FIELD_ERRORS})
_SECRET_FIELDS = frozenset({"key"})
"""Fields whose value is never repeated in an error."""
UNKNOWN_FIELD = "unknown"
"""The error code of an unknown field. Its value is not repeated, because it may be a secret."""
_MAX_CHARS = 80


def error_response(error: Exception, context: dict[str, Any]) -> Response | None:
    if isinstance(error, OUTAGE_ERRORS):
        logger.warning("the database is unavailable: %s", safe_reason(error))
        error = DatabaseUnavailable()
    response = exception_handler(error, context)
    if response is not None and isinstance(error, ValidationError):
        fields = error.detail if isinstance(error.detail, dict) else {"": error.detail}
        name, messages = next(iter(fields.items()))
        is_field = name not in _NOT_A_FIELD
        sentence = _sentence(messages)
        response.data = {"detail": f"{name}: {sentence}" if is_field else sentence}
        if is_field:
            response.data["fields"] = fields
    elif response is not None and isinstance(error, VersionMismatch):
        response.data.update(error.current)
    return response


class DatabaseUnavailable(APIException):
    """The database cannot be reached, or stays locked for too long."""

    status_code = 503
    default_code = "away"
    default_detail = OUTAGE_MESSAGE


class NotPossible(APIException):
    """The action cannot be performed on this row."""

    status_code = 409
    default_code = "not_possible"


class Conflict(ValidationError):
    """The row conflicts with another row or with the current configuration."""

    status_code = 409


class VersionMismatch(APIException):
    """The row has changed since it was read."""

    status_code = 412
    default_code = "out_of_date"

    def __init__(self, sentence: str, current: dict[str, Any]) -> None:
        super().__init__(sentence)
        self.current = current


def serializer_error(errors: Any, data: Any) -> ValidationError:
    """The errors of a serializer; adds the sent value to messages that do not contain it."""
    return ValidationError(
        {name: _with_value(name, messages, data) for name, messages in errors.items()}
    )


def model_error(error: ModelValidationError, data: Any) -> ValidationError:
    """The errors of a model's own validation; 409 if only a unique value is taken."""
    by_field: dict[str, list[ModelValidationError]] = error.update_error_dict({})
    codes = {part.code for parts in by_field.values() for part in parts}
    fields = {
        name: _with_value(name, [text for part in parts for text in part.messages], data)
        for name, parts in by_field.items()
    }
    return Conflict(fields) if codes == {"unique"} else ValidationError(fields)


def _with_value(name: str, messages: Any, data: Any) -> Any:
    value = data.get(name) if isinstance(data, dict) else None
    if name in _SECRET_FIELDS or not isinstance(value, str | int | float):
        return messages
    if not isinstance(messages, list):
        return messages
    if any(isinstance(text, ErrorDetail) and text.code == UNKNOWN_FIELD for text in messages):
        return messages
    if any(str(value)[:_MAX_CHARS] in str(text) for text in messages):
        return messages
    return [*messages, f"The value was {json.dumps(value, ensure_ascii=False)[:_MAX_CHARS]}."]


def _sentence(messages: Any) -> str:
    """Join the messages of one field, however they are nested."""
    if isinstance(messages, dict):
        return " ".join(f"{name}: {_sentence(part)}" for name, part in messages.items())
    if isinstance(messages, Iterable) and not isinstance(messages, str):
        return " ".join(_sentence(part) for part in messages)
    return str(messages)
