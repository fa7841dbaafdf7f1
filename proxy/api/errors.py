"""Every error of the API has a `detail`: a sentence. Of what was sent wrong, `fields` says more."""

import json
import logging
from collections.abc import Iterable
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS
from django.core.exceptions import ValidationError as Invalid
from rest_framework.exceptions import APIException, ErrorDetail, ValidationError
from rest_framework.response import Response
from rest_framework.views import exception_handler

from proxy.database.outage import AWAY, SENTENCE, reason

logger = logging.getLogger("athena.api")

_WHOLE = frozenset({"", "detail", "non_field_errors", NON_FIELD_ERRORS})
_SECRET = frozenset({"key"})
"""Fields whose value is never repeated."""
UNKNOWN = "unknown"
"""The code of a field that there is not; its value is not repeated, as it may be anything."""
_MOST_CHARS = 80


def answer(error: Exception, context: dict[str, Any]) -> Response | None:
    if isinstance(error, AWAY):
        logger.warning("the database is away: %s", reason(error))
        error = Away()
    response = exception_handler(error, context)
    if response is not None and isinstance(error, ValidationError):
        fields = error.detail if isinstance(error.detail, dict) else {"": error.detail}
        first, words = next(iter(fields.items()))
        named = first not in _WHOLE
        response.data = {"detail": f"{first}: {_sentence(words)}" if named else _sentence(words)}
        if named:
            response.data["fields"] = fields
    elif response is not None and isinstance(error, OutOfDate):
        response.data.update(error.newest)
    return response


class Away(APIException):
    """The database cannot be reached, or somebody holds it for long."""

    status_code = 503
    default_code = "away"
    default_detail = SENTENCE


class NotPossible(APIException):
    """What is asked for cannot be done to this object."""

    status_code = 409
    default_code = "not_possible"


class Taken(ValidationError):
    """What is asked for is another object's already, or does not go with what there is."""

    status_code = 409


class OutOfDate(APIException):
    """Somebody changed the object since it was read."""

    status_code = 412
    default_code = "out_of_date"

    def __init__(self, sentence: str, newest: dict[str, Any]) -> None:
        super().__init__(sentence)
        self.newest = newest


def refusal(errors: Any, sent: Any) -> ValidationError:
    """What a serializer found wrong; a sentence that does not name the value gets it."""
    return ValidationError({name: _named(name, words, sent) for name, words in errors.items()})


def refusal_of_row(error: Invalid, sent: Any) -> ValidationError:
    """What the row's own rules say."""
    found: dict[str, list[Invalid]] = error.update_error_dict({})
    codes = {part.code for parts in found.values() for part in parts}
    fields = {
        name: _named(name, [word for part in parts for word in part.messages], sent)
        for name, parts in found.items()
    }
    return Taken(fields) if codes == {"unique"} else ValidationError(fields)


def _named(name: str, words: Any, sent: Any) -> Any:
    value = sent.get(name) if isinstance(sent, dict) else None
    if name in _SECRET or not isinstance(value, str | int | float) or not isinstance(words, list):
        return words
    if any(isinstance(word, ErrorDetail) and word.code == UNKNOWN for word in words):
        return words
    text = str(value)[:_MOST_CHARS]
    if any(text in str(word) for word in words):
        return words
    return [*words, f"It was {json.dumps(value, ensure_ascii=False)[:_MOST_CHARS]}."]


def _sentence(words: Any) -> str:
    """What is said of one field, however it is nested."""
    if isinstance(words, dict):
        return " ".join(f"{name}: {_sentence(part)}" for name, part in words.items())
    if isinstance(words, Iterable) and not isinstance(words, str):
        return " ".join(_sentence(part) for part in words)
    return str(words)
