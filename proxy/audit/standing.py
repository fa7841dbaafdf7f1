"""What stands in a session's requests, packed once for all of its transcripts.

A client sends its system prompt, its tools and its settings again with every turn, and they are
most of what a transcript has. What earlier requests had around their messages, too, is packed when
it is met first, and stored once; a transcript then has the messages alone. Where something must be
taken out of a request, or not all of it is kept, its transcript has all of it.

What was packed is remembered, bounded, and of each client whether none of its secrets is in it.
"""

from dataclasses import dataclass, field

from proxy.audit.exchange import Exchange, Reading
from proxy.audit.transcripts.codec import Standing, pack_standing
from proxy.audit.transcripts.replay_input import packed_tools
from proxy.security.redaction import Redactor

_MOST_BYTES = 16 * 1024 * 1024
"""Of what is remembered, as much as the parser remembers."""
_MOST_CLIENTS = 100


@dataclass(frozen=True, slots=True)
class _Known:
    standing: Standing | None
    """None if something in it looks like a secret, whoever's."""
    size: int
    verdicts: dict[tuple[str, ...], bool] = field(default_factory=dict)
    """Of a client's and its upstreams' secrets, whether none is in it."""


_known: dict[tuple[object, ...], _Known] = {}


def standing_of(exchange: Exchange, redactor: Redactor) -> Standing | None:
    """What stands around the messages of a request, if that can be kept apart."""
    reading, capture = exchange.reading, exchange.capture
    if reading is None or reading.around is None or capture is None or capture.request[2]:
        return None
    # The bytes are the same objects in every turn: their hashes are known, and nothing is compared.
    name = (exchange.dialect, capture.limit, *reading.around)
    known = _known.get(name)
    if known is None:
        known = _met(reading, capture.limit)
        while _known and sum([other.size for other in _known.values()]) + known.size > _MOST_BYTES:
            del _known[next(iter(_known))]  # the oldest
        _known[name] = known
    if known.standing is None:
        return None
    is_clean = known.verdicts.get(redactor.secrets)
    if is_clean is None:
        if len(known.verdicts) >= _MOST_CLIENTS:
            known.verdicts.clear()
        is_clean = _packed_tools(reading, Redactor(redactor.secrets), capture.limit) is not None
        known.verdicts[redactor.secrets] = is_clean
    return known.standing if is_clean else None


def messages_of(exchange: Exchange) -> bytes:
    """The request without what stands around its messages."""
    reading, capture = exchange.reading, exchange.capture
    assert reading is not None  # noqa: S101
    assert reading.around is not None  # noqa: S101
    assert capture is not None  # noqa: S101
    body = capture.request[0]
    before, after = map(len, reading.around)
    return body[before : len(body) - after]


def _met(reading: Reading, limit: int) -> _Known:
    assert reading.around is not None  # noqa: S101
    before, after = reading.around
    tools = _packed_tools(reading, Redactor(), limit)
    standing = None if tools is None else pack_standing(before=before, after=after, tools=tools)
    size = len(before) + len(after) + (len(standing.packed) if standing else 0)
    return _Known(standing, size)


def _packed_tools(reading: Reading, redactor: Redactor, limit: int) -> bytes | None:
    """The tools; None if anything is to be taken out of them or around the messages, or left out.

    A name may be spelt otherwise in the request than it is.
    """
    tools, left_out = packed_tools(reading.tools, redactor, limit)
    is_clean = not redactor.count and all(map(redactor.is_clean, reading.around or ()))
    return tools if is_clean and not left_out else None
