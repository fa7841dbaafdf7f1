"""Every error of the API has a `detail`: a sentence. Of what was sent wrong, `fields` says more."""

from typing import Any

from rest_framework.exceptions import APIException, ValidationError
from rest_framework.response import Response
from rest_framework.views import exception_handler


def answer(error: Exception, context: dict[str, Any]) -> Response | None:
    response = exception_handler(error, context)
    if response is not None and isinstance(error, ValidationError):
        fields = error.detail if isinstance(error.detail, dict) else {"": error.detail}
        first, words = next(iter(fields.items()))
        sentence = " ".join(str(word) for word in words) if isinstance(words, list) else str(words)
        named = first not in ("", "non_field_errors", "detail")
        response.data = {"detail": f"{first}: {sentence}" if named else sentence}
        if named:
            response.data["fields"] = fields
    return response


class NotPossible(APIException):
    """What is asked for cannot be done to this object."""

    status_code = 409
    default_code = "not_possible"
