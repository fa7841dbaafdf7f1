"""Hides thinking from a client that switched it off, if the model cannot stop thinking.

The request asked the upstream for more tokens than the client allows (`target_limits`), so the text
is limited here. Only the model can count its tokens; here, four bytes of UTF-8 count as one.
Usage stays what the upstream reports, and includes the thinking.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from formats.events import (
    Event,
    MessageEnd,
    ReasoningDelta,
    ReasoningRedacted,
    ReasoningSignature,
    StopReason,
    TextDelta,
)
from formats.pipeline import Transform

_TOKEN_BYTES = 4
_THINKING = (ReasoningDelta, ReasoningRedacted, ReasoningSignature)


class HiddenThinking:
    def __init__(self, transform: Transform, max_tokens: int | None) -> None:
        """`transform` is the stage before; `max_tokens` is the client's limit, if it has one."""
        self._transform = transform
        self._bytes_left = None if max_tokens is None else max_tokens * _TOKEN_BYTES
        self._is_cut = False

    def feed(self, events: Iterable[Event]) -> list[Event]:
        return self._shown(self._transform.feed(events))

    def take(self) -> list[Event]:
        """Return the events that were made before an error was raised."""
        return self._shown(self._transform.take())

    def _shown(self, events: Iterable[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if isinstance(event, TextDelta):
                if text := self._limited(event.text):
                    out.append(TextDelta(text))
            elif isinstance(event, MessageEnd) and self._is_cut:
                out.append(replace(event, stop_reason=StopReason.MAX_TOKENS, stop_sequence=None))
            elif not isinstance(event, _THINKING):
                out.append(event)
        return out

    def try_pass(self, event: Event) -> bool:
        return False

    def _limited(self, text: str) -> str:
        """Return the beginning of the text that fits."""
        if self._bytes_left is None:
            return text
        data = text.encode("utf-8", "surrogatepass")
        kept = data[: self._bytes_left]
        self._bytes_left -= len(kept)
        if len(kept) == len(data):
            return text
        self._is_cut, self._bytes_left = True, 0
        return kept.decode("utf-8", "ignore")
