"""Secrets are taken out of a transcript before it leaves the process's memory.

Known ones (the client's key, the upstream's) and what looks like one. A secret may be split over
the chunks of a stream, where no search of its bytes would find it: then the stream is rebuilt from
its text, which says the same in fewer chunks.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ahocorasick_rs import BytesAhoCorasick, MatchKind
from msgspec.structs import asdict, replace

from formats import DIALECTS, Event, FormatsError, Limits, ReplyOptions, merge_deltas

# A secret begins where a word does; in JSON text an escape before it looks like a part of it.
_ESCAPES = (r"\\[bfnrt]", r"\\u[0-9A-Fa-f]{4}")
_BEGIN = rf"(?:\b|(?<={_ESCAPES[0]})|(?<={_ESCAPES[1]}))"


def _begun(word: str) -> "re.Pattern[bytes]":
    """Matches behind a word that begins a secret."""
    begins = "|".join(f"(?<={before}{word})" for before in (r"\b", *_ESCAPES))
    return re.compile(begins.encode())


# A text without any of these has no secret of a known look, and nearly every text is such a one:
# they are all looked for in one pass. Where one of them is, a second look tells more.
_KEY = b"sk-"
_MARKS = {
    **{word: _begun(word) for word in (_KEY.decode(), "AKIA", "AIza", "eyJ", "github_pat_")},
    **{word: _begun(word) for word in ("gho_", "ghp_", "ghs_", "ghu_")},
    **{word: _begun(word) for word in ("xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-")},
    "BEGIN ": re.compile(b"(?<=-----BEGIN )"),
    "earer ": re.compile(b""),
}
# Marks that overlap are not all found: that is the price of a vectorised search. The end of AKIA
# alone may begin another, and a secret begins there no more than in any other word.
_find = BytesAhoCorasick(
    map(str.encode, _MARKS), matchkind=MatchKind.LeftmostFirst
).find_matches_as_indexes
_second_looks = [look.match for look in _MARKS.values()]
_WINDOW = 64 * 1024
"""Bytes that are searched at once: a text may be nothing but marks, and each takes memory."""
_OVERLAP = max(map(len, _MARKS)) - 1
_MOST_KNOWN = 500
_LONGEST_KNOWN = 1024
_harmless: set[str] = set()
"""Texts in which nothing looks like a secret: those of a session come again and again."""

# Each is linear in the text, whoever wrote it: a repetition is bounded, or ends at what it cannot
# contain, or takes whatever it has seen. That is why the beginning of a JWT is found (`eyj`) though
# the rest may be missing: else each of many beginnings in one word would read all that follow.
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
_IN_A_WORD = re.compile(_KINDS, re.VERBOSE | re.DOTALL)

# What is not in JSON text as it is.
_ESCAPED = re.compile(r'["\\\x00-\x1f]')

# What a secret is made of, and how much of it may be left out where one may have been cut.
WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.~+/=-"
MOST_WORD = 512
NUL = "\N{SYMBOL FOR NULL}"
"""Stands for the character, which PostgreSQL does not take."""
_MORE = 1024
"""Characters behind those that are shown, in which a secret may end that began there."""


def are_suspect(data: bytes | bytearray, secrets: Sequence[bytes] = ()) -> bool:
    """Whether there may be a secret of a known look in it, or there is one of `secrets`."""
    is_marked = False
    for which, _, end in _find(data) if len(data) <= _WINDOW else _marks(data):
        is_marked = True
        if _second_looks[which](data, end):
            return True
    # A secret that has a mark itself is nowhere if no mark is.
    return bool(secrets) and any(
        (is_marked or _KEY not in secret) and secret in data for secret in secrets
    )


def _marks(data: bytes | bytearray) -> Iterator[tuple[int, int, int]]:
    view = memoryview(data)
    for at in range(0, len(data), _WINDOW):
        for which, start, end in _find(view[at : at + _WINDOW + _OVERLAP]):
            yield which, at + start, at + end


def _is_harmless(text: str) -> bool:
    """Whether nothing in it looks like a secret. No text in which something does is remembered."""
    if text in _harmless:
        return True
    if are_suspect(text.encode("utf-8", "surrogatepass")):
        return False
    if len(text) <= _LONGEST_KNOWN:
        if len(_harmless) >= _MOST_KNOWN:
            _harmless.clear()
        _harmless.add(text)
    return True


class Redactor:
    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """`secrets`: those that are known, whatever they look like."""
        self.count = 0
        self.secrets = tuple([text for text in dict.fromkeys(secrets) if len(text) >= 8])

    def text(self, text: str) -> str:
        for secret in self.secrets:
            if secret in text:
                self.count += text.count(secret)
                text = text.replace(secret, "[redacted:known]")
        if are_suspect(text.encode("utf-8", "surrogatepass")):
            text = _PATTERNS.sub(self._replace, text)
        return text

    def is_clean(self, data: bytes | bytearray) -> bool:
        """Whether there is surely nothing to take out; what is not UTF-8 hides nothing."""
        spelt = [secret.encode("utf-8", "surrogateescape") for secret in self.secrets]
        return not are_suspect(data, spelt)

    def is_clean_in_json(self, data: bytes | bytearray) -> bool:
        """The same of texts in JSON, where a secret may be spelt otherwise."""
        return not _ESCAPED.search("".join(self.secrets)) and self.is_clean(data)

    def is_clean_text(self, text: str) -> bool:
        """The same of a short text that is likely to come again."""
        for secret in self.secrets:
            if secret in text:
                return False
        return _is_harmless(text)

    def brief(self, text: str, length: int) -> str:
        """The beginning of a text of any length; the work is that for a short one."""
        most = 2 * length + _MORE
        if len(text) > most:
            # Half a secret would not be recognised as one.
            text = text[: most - MOST_WORD] + text[most - MOST_WORD : most].rstrip(WORD)
        return self.text(text)[:length]

    def redact(self, data: bytes) -> bytes:
        """Any bytes; what is not UTF-8 stays as it is."""
        if self.is_clean(data):
            return data
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def events(self, events: Sequence[Event]) -> list[Event]:
        """Merged events without secrets."""
        merged = merge_deltas(events)
        together = "\n".join([text for event in merged for text in texts_of(event).values()])
        if self.is_clean(together.encode("utf-8", "surrogatepass")):
            return merged
        return [self._event(event) for event in merged]

    def stream(self, data: bytes, dialect: str, *, is_suspect: bool) -> bytes:
        """The bytes of an answer; rebuilt if a secret was split over its chunks.

        `is_suspect`: its text has one, or is not known.
        """
        clean = self.redact(data)
        if not is_suspect:
            return clean
        said = merge_deltas(_decode(data, dialect))
        texts = [self._event(event) for event in said]
        if texts == (said if clean == data else merge_deltas(_decode(clean, dialect))):
            return clean
        return self.redact(DIALECTS[dialect].encoder(ReplyOptions()).feed(texts))

    def tail(self, data: bytes) -> bytes:
        """The bytes of an answer's end, which begin anywhere; none if a secret is split over them.

        No decoder reads an answer without its beginning, so that it could not be rebuilt.
        """
        clean = self.redact(data)
        before = self.count
        for text in _spoken(clean):
            self.text(text)
        return clean if self.count == before else b""

    def _event(self, event: Event) -> Event:
        texts = texts_of(event)
        clean = {n: self.text(v) for n, v in texts.items()}
        return replace(event, **clean) if clean != texts else event

    def _replace(self, found: "re.Match[str]") -> str:
        if found.lastgroup == "eyj":  # no more than the beginning
            return _IN_A_WORD.sub(self._replace, found[0])
        self.count += 1
        return f"[redacted:{found.lastgroup}]"


class Trusting(Redactor):
    """Takes nothing out: for parts of a whole that is looked at before it goes anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.has_cut = False
        """Whether a text was cut: half a secret is not recognised as one, wherever it is."""

    def text(self, text: str) -> str:
        return text

    def is_clean(self, data: bytes | bytearray) -> bool:
        return True

    def brief(self, text: str, length: int) -> str:
        self.has_cut |= len(text) > length
        return text[:length]

    def events(self, events: Sequence[Event]) -> list[Event]:
        return merge_deltas(events)


def texts_of(event: Event) -> dict[str, str]:
    """Whatever of it is text; names that the gateway gave are no plain strings."""
    return {name: text for name, text in asdict(event).items() if type(text) is str and text}


def _decode(data: bytes, dialect: str) -> list[Event]:
    """As much of an answer as can be read."""
    decoder = DIALECTS[dialect].decoder(Limits())
    try:
        return decoder.feed(data)
    except FormatsError:
        return decoder.take()


def _spoken(data: bytes) -> list[str]:
    """What the chunks of a stream say together: the strings of each field, joined."""
    texts: dict[str, list[str]] = {}
    for line in data.split(b"\n"):
        if line.startswith(b"data:"):
            try:
                _collect(json.loads(line[5:]), "", texts)
            except (ValueError, RecursionError):
                continue  # the line that was cut
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
    """A value of JSON whose texts every database takes, whoever wrote them."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict):
        return {storable(name): storable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value


def storable_text(text: str) -> str:
    """No database takes half a surrogate pair."""
    if "\0" in text:
        text = text.replace("\0", NUL)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
