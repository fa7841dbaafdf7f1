"""Secrets are taken out of a transcript before it leaves the process's memory.

Known ones (the client's key, the upstream's) and what looks like one. A secret may be split over
the chunks of a stream, where no search of its bytes would find it: then the stream is rebuilt from
its text, which says the same in fewer chunks.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import asdict, replace

from formats import DIALECTS, Event, FormatsError, Limits, ReplyOptions, merge_deltas

# A search for these costs next to nothing, and nearly every text has none of them.
_HINTS = (
    "sk-",
    "ghp_",
    "gho_",
    "github_pat_",
    "AKIA",
    "eyJ",
    "-----BEGIN",
    "xox",
    "AIza",
    "earer ",
)
_PATTERNS = re.compile(
    r"""
      (?P<key>\bsk-[A-Za-z0-9_-]{16,})
    | (?P<github>\b(?:gh[opsu]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}))
    | (?P<aws>\bAKIA[0-9A-Z]{16}\b)
    | (?P<google>\bAIza[0-9A-Za-z_-]{30,})
    | (?P<slack>\bxox[abprs]-[A-Za-z0-9-]{10,})
    | (?P<jwt>\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})
    | (?P<pem>-----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z))
    | (?P<bearer>(?<=[Bb]earer[ ])[A-Za-z0-9_.~+/-]{16,}=*)
    """,
    re.VERBOSE | re.DOTALL,
)


class Redactor:
    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """`secrets`: those that are known, whatever they look like."""
        self.count = 0
        self._secrets = [secret for secret in secrets if len(secret) >= 8]

    def text(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                self.count += text.count(secret)
                text = text.replace(secret, "[redacted:known]")
        if any(hint in text for hint in _HINTS):
            text = _PATTERNS.sub(self._replace, text)
        return text

    def redact(self, data: bytes) -> bytes:
        """Any bytes; what is not UTF-8 stays as it is."""
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def events(self, events: Sequence[Event]) -> list[Event]:
        """Merged events without secrets."""
        return [self._event(event) for event in merge_deltas(events)]

    def stream(self, data: bytes, dialect: str, *, is_suspect: bool) -> bytes:
        """The bytes of an answer; rebuilt if a secret was split over its chunks.

        `is_suspect`: its text has one, or is not known.
        """
        clean = self.redact(data)
        if not is_suspect:
            return clean
        texts = self.events(_decode(data, dialect))
        if texts == merge_deltas(_decode(clean, dialect)):
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
        """Whatever of it is text; names that the gateway gave are no plain strings."""
        texts = {n: self.text(v) for n, v in asdict(event).items() if type(v) is str and v}
        return replace(event, **texts) if texts else event

    def _replace(self, found: "re.Match[str]") -> str:
        self.count += 1
        return f"[redacted:{found.lastgroup}]"


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


def storable(text: str) -> str:
    """Text that every database takes: PostgreSQL has no NUL, and none has half a surrogate pair."""
    if "\0" in text:
        text = text.replace("\0", "\N{SYMBOL FOR NULL}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
