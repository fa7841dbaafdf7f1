"""Removes secrets from rows, transcripts and log lines before they leave the process's memory.

Finds known secrets (the client's key, the upstream's key) and text that looks like a secret. In a
stream, a secret may be split across several chunks. Then the stream is rebuilt from its text, with
the same content in fewer chunks.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ahocorasick_rs import BytesAhoCorasick, MatchKind
from msgspec.structs import asdict, replace

from formats import DIALECTS, Event, FormatsError, Limits, ReplyOptions, merge_deltas

# A secret begins at the start of a word. In JSON text, an escape before it looks like its first
# letters.
_ESCAPES = (r"\\[bfnrt]", r"\\u[0-9A-Fa-f]{4}")
_BEGIN = rf"(?:\b|(?<={_ESCAPES[0]})|(?<={_ESCAPES[1]}))"


def _at_word_start(prefix: str) -> "re.Pattern[bytes]":
    """Compile a pattern that matches after the prefix of a secret at the start of a word."""
    starts = "|".join(f"(?<={before}{prefix})" for before in (r"\b", *_ESCAPES))
    return re.compile(starts.encode())


# Every secret of a known kind has one of these prefixes. Few texts have any: one pass looks for
# all of them, and where one is found, its pattern must match as well.
_KEY = b"sk-"
_PREFIXES = {
    **{p: _at_word_start(p) for p in (_KEY.decode(), "AKIA", "AIza", "eyJ", "github_pat_")},
    **{p: _at_word_start(p) for p in ("gho_", "ghp_", "ghs_", "ghu_")},
    **{p: _at_word_start(p) for p in ("xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-")},
    "BEGIN ": re.compile(b"(?<=-----BEGIN )"),
    "earer ": re.compile(b""),
}
# This search is vectorised, and misses a prefix that overlaps the one before. Only the end of AKIA
# can overlap another prefix, and no secret starts there, in the middle of a word.
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
    | (?P<google>{_BEGIN}AIza[0-9A-Za-z_-]{{30,}}+)
    | (?P<slack>{_BEGIN}xox[abprs]-[A-Za-z0-9-]{{10,}}+)
    | (?P<pem>-----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z))
"""
_PATTERNS = re.compile(
    rf"""
      (?P<bearer>(?<=[Bb]earer[ ])[A-Za-z0-9_.~+/-]{{16,}}+=*+)
    | (?P<eyj>{_BEGIN}eyJ[A-Za-z0-9_-]{{8,}}+)(?P<jwt>\.[A-Za-z0-9_-]{{8,}}+\.[A-Za-z0-9_-]{{8,}}+)?
    | {_KINDS}
    """,
    re.VERBOSE | re.DOTALL,
)
_WITHIN_WORDS = re.compile(_KINDS, re.VERBOSE | re.DOTALL)

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
        self.add_secrets(secrets)

    def add_secrets(self, secrets: Iterable[str]) -> None:
        known = dict.fromkeys((*self.secrets, *secrets))
        self.secrets = tuple([text for text in known if len(text) >= 8])

    def redact_text(self, text: str) -> str:
        for secret in self.secrets:
            if secret in text:
                self.count += text.count(secret)
                text = text.replace(secret, "[redacted:known]")
        if may_have_secret(text.encode("utf-8", "surrogatepass")):
            text = _PATTERNS.sub(self._replace, text)
        return text

    def is_clean(self, data: bytes) -> bool:
        """Return True if the data certainly has no secret, also if it is not valid UTF-8."""
        known = [secret.encode("utf-8", "surrogateescape") for secret in self.secrets]
        return not may_have_secret(data, known)

    def is_clean_text(self, text: str) -> bool:
        """Check a short text like `is_clean`, with a cache for repeated texts."""
        for secret in self.secrets:
            if secret in text:
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

    def redact_bytes(self, data: bytes) -> bytes:
        """Redact any bytes. Bytes that are not UTF-8 are kept."""
        if self.is_clean(data):
            return data
        text = self.redact_text(data.decode("utf-8", "surrogateescape"))
        return text.encode("utf-8", "surrogateescape")

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

    def _replace(self, match: "re.Match[str]") -> str:
        if match.lastgroup == "eyj":  # not a JWT: other secrets may be in this word
            return _WITHIN_WORDS.sub(self._replace, match[0])
        self.count += 1
        return f"[redacted:{match.lastgroup}]"


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
    """Replace NUL and unpaired surrogates, which databases refuse."""
    if "\0" in text:
        text = text.replace("\0", NUL)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
