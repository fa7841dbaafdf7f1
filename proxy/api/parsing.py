"""What programs send: JSON that every database and every answer can carry.

Escapes can spell what is no text, a NUL or half a surrogate pair, and brackets can be nested
without end. Either would be an error of ours, later and elsewhere: it is refused here.
"""

from collections.abc import Iterator, Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

_DEPTH = 32
_NO_TEXT = "The JSON has a character that is no text."


class PlainJson(JSONParser):
    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        try:
            found = super().parse(stream, media_type, parser_context)
        except RecursionError as error:
            raise ParseError("The JSON is nested too deeply.") from error
        for text in _texts(found, _DEPTH):
            if not is_text(text):
                raise ParseError(_NO_TEXT)
        return found


def is_text(value: str) -> bool:
    return not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in value)


def _texts(value: Any, depth: int) -> Iterator[str]:
    """Every string in it, names included."""
    if depth == 0:
        raise ParseError("The JSON is nested too deeply.")
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for part in value.values():
            yield from _texts(part, depth - 1)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part, depth - 1)
