"""Secrets are taken out of a transcript before it leaves the process's memory.

Known ones (the client's key, the upstream's) and what looks like one. A secret may be split over
the chunks of a stream, where no search of its bytes would find it: then the stream is rebuilt from
its text, which says the same in fewer chunks.
"""

import re
from collections.abc import Iterable, Sequence

from formats import (
    DIALECTS,
    Event,
    FormatsError,
    Limits,
    ReasoningDelta,
    ReplyOptions,
    TextDelta,
    ToolCallDelta,
    merge_deltas,
)

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

    def _event(self, event: Event) -> Event:
        match event:
            case TextDelta(text=text):
                return TextDelta(self.text(text))
            case ReasoningDelta(text=text):
                return ReasoningDelta(self.text(text))
            case ToolCallDelta(json=json):
                return ToolCallDelta(self.text(json))
        return event

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
