"""What stands in a session's requests, packed once for all of its transcripts.

A client sends its system prompt, its tools and its settings again with every turn, and they are
most of what a transcript has. What earlier requests had around their messages, too, is packed when
it is met first, and stored once; a transcript then has the messages alone. Where something must be
taken out of it, or not all of a request is kept, each transcript has its own.

What was packed is remembered by what it was made of and by the secrets that are not in it.
"""

from proxy.capture import Clipped
from proxy.exchange import Exchange, Reading
from proxy.reading import packed_tools
from proxy.redaction import Redactor
from proxy.said import Standing, pack_standing

_REMEMBERED = 32
_packed: dict[tuple[object, ...], Standing | None] = {}


def standing_of(exchange: Exchange, redactor: Redactor) -> Standing | None:
    """What stands around the messages of a request, if that can be kept apart."""
    reading, capture = exchange.reading, exchange.capture
    if reading is None or reading.around is None or capture is None or capture.request[2]:
        return None
    # The bytes are the same objects in every turn: their hashes are known, and nothing is compared.
    known = (exchange.dialect, capture.limit, redactor.secrets, *reading.around)
    try:
        return _packed[known]
    except KeyError:
        if len(_packed) >= _REMEMBERED:
            _packed.clear()
        _packed[known] = standing = _pack(reading, redactor, capture.limit)
        return standing


def messages_of(exchange: Exchange) -> Clipped:
    """The request without what stands around its messages."""
    reading, capture = exchange.reading, exchange.capture
    assert reading is not None  # noqa: S101
    assert reading.around is not None  # noqa: S101
    assert capture is not None  # noqa: S101
    body = capture.request[0]
    before, after = map(len, reading.around)
    messages = body[before : len(body) - after]
    return messages, len(messages), 0


def _pack(reading: Reading, redactor: Redactor, limit: int) -> Standing | None:
    assert reading.around is not None  # noqa: S101
    before, after = reading.around
    if not (redactor.is_clean(before) and redactor.is_clean(after)):
        return None
    tools, left_out = packed_tools(reading.tools, redactor, limit)
    return None if left_out else pack_standing(before=before, after=after, tools=tools)
