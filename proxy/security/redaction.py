"""Removes secrets from rows, transcripts and log lines before they are stored or written.

Finds known secrets (the client's key, the upstream's key) and text that looks like a secret, also
where JSON escapes spell a part of it, at any depth of JSON within JSON. Known secrets are found in
percent escapes and HTML escapes, too. In a stream, a secret may be split across several chunks.
Then the stream is rebuilt from its text, with the same content in fewer chunks.
"""

import json
import re
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus

from ahocorasick_rs import BytesAhoCorasick, MatchKind
from msgspec.structs import asdict, replace

from formats import DIALECTS, Event, FormatsError, Limits, ReplyOptions, merge_deltas

# A secret begins at the start of a word. In JSON text, an escape before it looks like its first
# letters.
_ESCAPES = (r"\\[bfnrt]", r"\\u[0-9A-Fa-f]{4}")
_BEGIN = rf"(?:\b|(?<={_ESCAPES[0]})|(?<={_ESCAPES[1]}))"


# Between the parts of a header, as clients and tools print it: spaces, tabs, JSON's \\t and quotes.
_GAP = r"(?:[ \t]|\\{1,4}t){1,8}+"
_COLON = rf"""\\{{0,4}}["']?[ \t]{{0,8}}+[:=](?:{_GAP})?\\{{0,4}}["']?"""
# Words of a language have no digits, and few begin with a capital letter after `Basic`.
_CREDENTIALS = "(?=[a-z]{0,64}[A-Z0-9+/])[A-Za-z0-9+/]{8,512}+=*+"
_HEADER = "(?=[A-Za-z_.~+/-]{0,64}[0-9])[A-Za-z0-9_.~+/-]{16,512}+=*+"


def _at_word_start(prefix: str) -> "re.Pattern[bytes]":
    """Compile a pattern that matches after the prefix of a secret at the start of a word."""
    starts = "|".join(f"(?<={before}{prefix})" for before in (r"\b", *_ESCAPES))
    return re.compile(starts.encode())


# Every secret of a known kind has one of these prefixes, and one that is spelled with escapes has
# one of those with a backslash. Few texts have any: one pass looks for all of them, and where one
# is found, its pattern must match as well.
_KEY = b"sk-"
_PREFIXES = {
    **{p: _at_word_start(p) for p in (_KEY.decode(), "AKIA", "AIza", "eyJ", "github_pat_")},
    **{p: _at_word_start(p) for p in ("gho_", "ghp_", "ghs_", "ghu_")},
    **{p: _at_word_start(p) for p in ("glpat-", "gsk_", "hf_", "npm_", "rk_live_", "sk_live_")},
    "xai-": _at_word_start("xai-"),
    **{p: _at_word_start(p) for p in ("xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-")},
    "BEGIN ": re.compile(b"(?<=-----BEGIN )"),
    **{p: re.compile(rf"{_GAP}[A-Za-z0-9_.~+/-]{{16}}".encode()) for p in ("earer", "EARER")},
    **{p: re.compile(f"{_GAP}{_CREDENTIALS}".encode()) for p in ("asic", "ASIC")},
    **{
        p: re.compile(f"(?<=[Aa][Pp][Ii]{p}){_COLON}{_HEADER}".encode())
        for p in ("-key", "-Key", "-KEY")
    },
    "://": re.compile(rb"[^\s:/?#@\"'\\<>]{0,128}:[^\s/?#@\"\\<>]{1,256}@"),
    **{f"\\u00{digit}": re.compile(b"[0-9a-fA-F]") for digit in "234567"},
    "\\/": re.compile(b""),
}
_OF_HEADERS = {"earer", "EARER", "asic", "ASIC", "-key", "-Key", "-KEY"}
"""What precedes a secret in a header, and stays."""
_OFFSETS = [
    {"BEGIN ": -5, "://": 3}.get(prefix, len(prefix) if prefix in _OF_HEADERS else 0)
    for prefix in _PREFIXES
]
"""Where the pattern of a prefix matches, relative to the prefix."""
_IS_ESCAPE = [prefix[0] == "\\" for prefix in _PREFIXES]
# This search is vectorised, and misses a prefix that overlaps the one before. That is only possible
# in the middle of a word, where no secret starts.
_find_prefixes = BytesAhoCorasick(
    map(str.encode, _PREFIXES), matchkind=MatchKind.LeftmostFirst
).find_matches_as_indexes
_prefix_patterns = [pattern.match for pattern in _PREFIXES.values()]
_WINDOW = 64 * 1024
"""Bytes per search. A text may consist of prefixes alone, and each match takes memory."""
_OVERLAP = max(map(len, _PREFIXES)) - 1
_MAX_CACHED_TEXTS = 500
_MAX_CACHED_LENGTH = 1024
_cached_clean_texts: set[str] = set()
"""Texts without anything that looks like a secret. The requests of a session repeat them."""

# Every pattern takes linear time on any text: a repetition is bounded, or possessive, or ends at a
# character that it cannot contain. That is why `eyj` matches the first part of a JWT even if the
# rest is missing: otherwise each `eyJ` within a word would scan all that follows it.
_KINDS = rf"""
      (?P<key>{_BEGIN}sk-[A-Za-z0-9_-]{{16,}}+)
    | (?P<github>{_BEGIN}(?:gh[opsu]_[A-Za-z0-9]{{30,}}+|github_pat_[A-Za-z0-9_]{{30,}}+))
    | (?P<aws>{_BEGIN}AKIA[0-9A-Z]{{16}}\b)
    | (?P<token>{_BEGIN}(?:glpat-|gsk_|hf_|npm_|[rs]k_live_|xai-)[A-Za-z0-9_-]{{20,}}+)
    | (?P<google>{_BEGIN}AIza[0-9A-Za-z_-]{{30,}}+)
    | (?P<slack>{_BEGIN}xox[abprs]-[A-Za-z0-9-]{{10,}}+)
    | (?P<pem>-----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z))
"""
_PATTERNS = re.compile(
    rf"""
      (?:(?<=[Bb]earer)|(?<=BEARER)){_GAP}(?P<bearer>[A-Za-z0-9_.~+/-]{{16,}}+=*+)
    | (?:(?<=[Bb]asic)|(?<=BASIC)){_GAP}(?P<basic>{_CREDENTIALS})
    | (?<=[Aa][Pp][Ii]-(?:key|Key|KEY)){_COLON}(?P<header>{_HEADER})
    | (?P<userinfo>(?<=://)[^\s:/?#@"'\\<>]{{0,128}}:[^\s/?#@"\\<>]{{1,256}}(?=@))
    | (?P<eyj>{_BEGIN}eyJ[A-Za-z0-9_-]{{8,}}+)(?P<jwt>\.[A-Za-z0-9_-]{{8,}}+\.[A-Za-z0-9_-]{{8,}}+)?
    | {_KINDS}
    """.encode(),
    re.VERBOSE | re.DOTALL,
)
_HEADER_KINDS = ("bearer", "basic", "header")
_WITHIN_WORDS = re.compile(_KINDS.encode(), re.VERBOSE | re.DOTALL)

# A backslash, at any depth of JSON within JSON, and the character that it escapes. Characters that
# are not in UTF-16's first plane have two escapes.
_BACKSLASH = r"\\(?:\\|u005[cC])*+"
_ESCAPE = re.compile(
    rf"""{_BACKSLASH}(?:
        u00([2-7][0-9a-fA-F])
      | (?:u([dD][89abAB][0-9a-fA-F]{{2}}){_BACKSLASH}(?=u[dD][c-fC-F]))?
        u(?!00[0-7])([0-9a-fA-F]{{4}})
      | ([/"]) | ([bfnrt])
    )?""".encode(),
    re.VERBOSE,
)

# Characters of secrets. At a cut, up to MAX_WORD of them are removed.
WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.~+/=-"
MAX_WORD = 512
NUL = "\N{SYMBOL FOR NULL}"
"""Replaces NUL, which PostgreSQL does not accept in text."""
_CONTEXT = 1024
"""Characters searched after the shown text: a secret may start in the shown text and end in
these."""


def may_have_secret(data: bytes, secrets: Sequence[bytes] = ()) -> bool:
    """Return whether the data has one of `secrets`, or the start of a secret of a known kind."""
    has_prefix = False
    for which, _, end in _find_prefixes(data) if len(data) <= _WINDOW else _find_in_windows(data):
        has_prefix = True
        if _prefix_patterns[which](data, end):
            return True
    # A secret that contains a prefix cannot be in data without any.
    return bool(secrets) and any(
        (has_prefix or _KEY not in secret) and secret in data for secret in secrets
    )


def _find_in_windows(data: bytes) -> Iterator[tuple[int, int, int]]:
    view = memoryview(data)
    for at in range(0, len(data), _WINDOW):
        for which, start, end in _find_prefixes(view[at : at + _WINDOW + _OVERLAP]):
            yield which, at + start, at + end


def _is_clean_of_known_kinds(text: str) -> bool:
    if text in _cached_clean_texts:
        return True
    if may_have_secret(text.encode("utf-8", "surrogatepass")):
        return False  # never cached: the cache must not hold secrets
    if len(text) <= _MAX_CACHED_LENGTH:
        if len(_cached_clean_texts) >= _MAX_CACHED_TEXTS:
            _cached_clean_texts.clear()
        _cached_clean_texts.add(text)
    return True


class Redactor:
    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """`secrets`: known secrets, of any shape."""
        self.count = 0
        self.secrets: tuple[str, ...] = ()
        self._spellings: tuple[str, ...] = ()
        self._known: list[bytes] = []
        self._are_escaped = False  # whether JSON escapes a character of a known secret
        self.add_secrets(secrets)

    def add_secrets(self, secrets: Iterable[str]) -> None:
        known = dict.fromkeys((*self.secrets, *secrets))
        self.secrets = tuple([text for text in known if len(text) >= 8])
        self._are_escaped = not all(map(_PLAIN.fullmatch, self.secrets))
        spellings = [spelling for text in self.secrets for spelling in spellings_of(text)]
        self._spellings = tuple(dict.fromkeys(spellings))
        self._known = [text.encode("utf-8", "surrogatepass") for text in self._spellings]

    def redact_text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        if self.is_clean(data):
            return text
        return self._redact(data).decode("utf-8", "surrogatepass")

    def redact_bytes(self, data: bytes) -> bytes:
        """Redact any bytes. Bytes that are not UTF-8 are kept."""
        return data if self.is_clean(data) else self._redact(data)

    def is_clean(self, data: bytes) -> bool:
        """Return True if the data certainly has no secret, also if it is not valid UTF-8."""
        if self._are_escaped and b"\\" in data:
            return False
        return not may_have_secret(data, self._known)

    def _redact(self, data: bytes) -> bytes:
        found = [*self._find(data)]
        plain, places = _unescape(data, has_escapes=self._are_escaped)
        if places:
            found += [(places(start), places(end), kind) for start, end, kind in self._find(plain)]
        parts: list[bytes] = []
        done = 0
        for start, end, kind in _merged(found):
            parts += data[done:start], b"[redacted:%b]" % kind
            self.count += 1
            done = end
        return b"".join([*parts, data[done:]])

    def _find(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """The start, the end and the kind of each secret."""
        for secret in self._known:
            start = data.find(secret)
            while start >= 0:
                yield start, start + len(secret), b"known"
                start = data.find(secret, start + len(secret))
        done = end_of_word = 0
        for which, start, end in _find_in_windows(data):
            start += _OFFSETS[which]
            if start < done or _IS_ESCAPE[which] or not _prefix_patterns[which](data, end):
                continue
            # Within a word that starts like a JWT, another one would scan the rest of it again.
            patterns = _WITHIN_WORDS if start < end_of_word else _PATTERNS
            match = patterns.match(data, start)
            if match is None:
                continue
            if match.lastgroup == "eyj":  # not a JWT: other secrets may be in this word
                end_of_word = match.end()
                continue
            kind = match.lastgroup
            assert kind is not None  # noqa: S101  every pattern has a name
            if kind == "basic" and not _is_credentials(match[kind]):
                continue
            done = match.end()
            yield match.start(kind) if kind in _HEADER_KINDS else start, done, kind.encode()

    def is_clean_text(self, text: str) -> bool:
        """Check a short text like `is_clean`, with a cache for repeated texts."""
        if self._are_escaped and "\\" in text:
            return False
        for spelling in self._spellings:
            if spelling in text:
                return False
        return _is_clean_of_known_kinds(text)

    def redact_start(self, text: str, length: int) -> str:
        """Redact the first `length` characters. The time does not grow with the text."""
        limit = 2 * length + _CONTEXT
        if len(text) > limit:
            # Half a secret would not be recognised as one.
            text = text[: limit - MAX_WORD] + text[limit - MAX_WORD : limit].rstrip(WORD)
        return self.redact_text(text)[:length]

    def redact_column(self, text: str, length: int) -> str:
        """Redact a text for a column of `length` characters; every database accepts the result."""
        if len(text) <= _MAX_CACHED_LENGTH and text.isascii() and "\0" not in text:
            if self.is_clean_text(text):
                return text[:length]
        return storable_text(self.redact_start(text, length))

    def redact_events(self, events: Sequence[Event]) -> list[Event]:
        """Merge deltas, and redact the texts of the merged events."""
        merged = merge_deltas(events)
        together = "\n".join([text for event in merged for text in texts_of(event).values()])
        if self.is_clean(together.encode("utf-8", "surrogatepass")):
            return merged
        return [self._redact_event(event) for event in merged]

    def redact_stream(self, data: bytes, dialect: str, *, is_suspect: bool) -> bytes:
        """Redact the bytes of an answer. Rebuild it if a secret was split across its chunks.

        `is_suspect`: the text of the answer has a secret, or is not known.
        """
        clean = self.redact_bytes(data)
        if not is_suspect:
            return clean
        events = merge_deltas(_decode(data, dialect))
        redacted = [self._redact_event(event) for event in events]
        if redacted == (events if clean == data else merge_deltas(_decode(clean, dialect))):
            return clean
        return self.redact_bytes(DIALECTS[dialect].encoder(ReplyOptions()).feed(redacted))

    def redact_stream_tail(self, data: bytes) -> bytes:
        """Redact the tail of an answer from any byte on; empty if a secret is split across chunks.

        It cannot be rebuilt: no decoder reads an answer without its start.
        """
        clean = self.redact_bytes(data)
        before = self.count
        for text in _texts_of_fields(clean):
            self.redact_text(text)
        return clean if self.count == before else b""

    def _redact_event(self, event: Event) -> Event:
        texts = texts_of(event)
        clean = {n: self.redact_text(v) for n, v in texts.items()}
        return replace(event, **clean) if clean != texts else event


def spellings_of(text: str) -> tuple[str, ...]:
    """A secret as it is, as it stands in JSON, an address or HTML, and as `_unescape` leaves it.

    Most keys have only characters that nothing escapes, and one spelling.
    """
    if _UNRESERVED.fullmatch(text):
        return (text,)
    in_json = text.replace("\\", "\\\\").replace('"', '\\"')
    data = text.encode("utf-8", "surrogatepass")
    in_addresses = [quote(data, safe) for safe in ("", "/", _KEPT_BY_COMPONENT, _KEPT_BY_URI)]
    in_addresses.append(quote_plus(data))
    lower = [_PERCENT.sub(lambda found: found[0].lower(), spelling) for spelling in in_addresses]
    plain = text.replace("\\", "")
    return text, in_json, plain, *in_addresses, *lower, escape(text), escape(text, quote=False)


def _is_credentials(data: bytes) -> bool:
    """Return whether the word after `Basic` is a name and a password, and no word of a language."""
    try:
        return b":" in b64decode(data + b"=" * (-len(data) % 4))
    except ValueError:
        return False


_PLAIN = re.compile(r"[ !#-\[\]-~]*")
"""What JSON does not escape."""
_UNRESERVED = re.compile("[A-Za-z0-9_.~-]*")
_PERCENT = re.compile("%[0-9A-F]{2}")
# What encodeURIComponent and encodeURI of JavaScript leave as it is.
_KEPT_BY_COMPONENT = "!'()*"
_KEPT_BY_URI = "!'()*;,/?:@&=+$#"


def _merged(found: list[tuple[int, int, bytes]]) -> Iterator[tuple[int, int, bytes]]:
    """Join the secrets that overlap; a known one gives its kind to what it is a part of."""
    whole: tuple[int, int, bytes] | None = None
    for start, end, kind in sorted(found):
        if whole is None or start >= whole[1]:
            if whole is not None:
                yield whole
            whole = start, end, kind
        else:
            whole = whole[0], max(end, whole[1]), b"known" if kind == b"known" else whole[2]
    if whole is not None:
        yield whole


def _unescape(
    data: bytes, *, has_escapes: bool = False
) -> tuple[bytes, Callable[[int], int] | None]:
    """The data without JSON escapes, and a function from offsets in it to offsets in `data`.

    The function is None if an escape cannot hide a secret. `has_escapes`: any escape can.
    """
    if not has_escapes and not any(
        _IS_ESCAPE[which] and _prefix_patterns[which](data, end)
        for which, _, end in _find_in_windows(data)
    ):
        return data, None
    parts: list[bytes] = []
    done = size = 0
    offsets, originals = [0], [0]
    for match in _ESCAPE.finditer(data):
        start, end = match.span()
        code, high, wide, same, space = match.groups()
        if code:
            char = bytes((int(code, 16),))
        elif wide:
            units = int(high or wide, 16), int(wide, 16)
            char = _character(*units[not high :])
        else:
            char = same or (b" " if space else b"\\")
        parts += data[done:start], char
        size += start - done
        offsets += size, size + len(char)
        originals += start, end
        size, done = size + len(char), end
    plain = b"".join([*parts, data[done:]])

    def original(offset: int) -> int:
        at = bisect_right(offsets, offset) - 1
        return originals[at] + offset - offsets[at]

    return plain, original


def _character(*units: int) -> bytes:
    """The UTF-8 of a character of one or two units of UTF-16."""
    data = b"".join(unit.to_bytes(2, "little") for unit in units)
    return data.decode("utf-16-le", "surrogatepass").encode("utf-8", "surrogatepass")


def texts_of(event: Event) -> dict[str, str]:
    """The text fields of an event, without names defined by the gateway: those are enumerations."""
    return {name: text for name, text in asdict(event).items() if type(text) is str and text}


def _decode(data: bytes, dialect: str) -> list[Event]:
    """Decode an answer up to its first error."""
    decoder = DIALECTS[dialect].decoder(Limits())
    try:
        return decoder.feed(data)
    except FormatsError:
        return decoder.take()


def _texts_of_fields(data: bytes) -> list[str]:
    """For each field of the chunks, its strings joined."""
    texts: dict[str, list[str]] = {}
    for line in data.split(b"\n"):
        if line.startswith(b"data:"):
            try:
                _collect(json.loads(line[5:]), "", texts)
            except (ValueError, RecursionError):
                continue  # a line that was cut
    return ["".join(parts) for parts in texts.values()]


def _collect(value: Any, path: str, texts: dict[str, list[str]]) -> None:
    if isinstance(value, str):
        texts.setdefault(path, []).append(value)
    elif isinstance(value, dict):
        for name, item in value.items():
            _collect(item, f"{path}.{name}", texts)
    elif isinstance(value, list):
        for item in value:
            _collect(item, path, texts)


def storable(value: Any) -> Any:
    """Make a JSON value acceptable to every database."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict):
        return {storable(name): storable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value


def storable_text(text: str) -> str:
    """Replace NUL and unpaired surrogates, which databases reject."""
    if "\0" in text:
        text = text.replace("\0", NUL)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
