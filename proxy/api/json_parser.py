"""Parser of JSON request bodies; rejects what a database or a response cannot hold.

JSON escapes can produce NUL characters and unpaired surrogates, and brackets can nest without end.
Both would fail later with a server error, so they are rejected here with 400.
"""

from collections.abc import Iterator, Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

_MAX_DEPTH = 32


class StorableJsonParser(JSONParser):
    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        try:
            value = super().parse(stream, media_type, parser_context)
        except RecursionError as error:
            raise ParseError("The JSON is nested too deeply.") from error
        if not all(is_storable(text) for text in _strings(value, _MAX_DEPTH)):
            raise ParseError("The JSON contains a NUL character or an unpaired surrogate.")
        return value


def is_storable(text: str) -> bool:
    return not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text)


def _strings(value: Any, depth: int) -> Iterator[str]:
    """Every string in the value, names included."""
    if depth == 0:
        raise ParseError("The JSON is nested too deeply.")
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for part in value.values():
            yield from _strings(part, depth - 1)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part, depth - 1)
