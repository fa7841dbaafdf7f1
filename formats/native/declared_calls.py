"""Scanner for a format that reads several families: makes only whole calls of declared tools.

A region is on trial: its reader runs, but its events and its text are kept. When a call has ended
and its tool is declared, its events are sent, and the trial of the next call begins. If a call is
broken or its tool is not declared, the text is released: the marker is text, and reading goes on
behind it, because a real call may follow half a call. Only a call that the end of the text cuts off
is not read again; what is inside it are its arguments. So no markup fails a message, and no half
call is sent. The price is that arguments do not stream.

A marker in Markdown's code or quotations is text, and so is one behind a quotation mark, with
everything up to the end of its region.

Text that is kept is limited by `held_chars`. Long regions are read again only a few times in a
message, so that work stays linear.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from re import Match

from formats.errors import LimitExceeded
from formats.events import (
    Event,
    Notice,
    NoticeCode,
    ToolCallEnd,
    ToolCallFailed,
    ToolCallStart,
    merge_deltas,
)
from formats.native.format import Candidate, NativeFormat, decide
from formats.native.grammar import CallOutput, Context, Grammar, Opening, Reader, Verdict
from formats.native.markdown import Markdown
from formats.native.markers import PARTIAL, MarkerSet
from formats.native.text_scanner import BEFORE_CHARS, Channel, Draft, TextRun, TextScanner

_QUOTES = tuple("`\"'“”‘’«»„‚‹›")
# White space, and a fence around the arguments, before the end of a delivered call.
_BESIDE_CALL = " \t\r\n\f\v`"
_MAX_LONG_RELEASES = 16


class DeclaredCalls(TextScanner):
    def __init__(self, native: NativeFormat, context: Context) -> None:
        super().__init__(native, context)
        self._markdowns = {channel: Markdown() for channel in Channel}
        self._markdown = self._markdowns[self._channel]
        self._literal = 0  # the length of the text that was released and is not read again
        self._long_releases = 0
        self._after_call: TextRun | None = None  # the text after the last call
        self._seen_families: set[str] = set()
        self._deferred_chars = 0

    def try_pass(self, text: str, channel: Channel) -> bool:
        # As in TextScanner, but in one call: this runs for every chunk.
        run, markdown = self._text, self._markdown
        if (
            channel is not self._channel
            or self._pending
            or self._reader is not None
            or self._draft is not None
            or self._aside
            or run.is_blank
        ):
            return False
        for initial in self._native.initials:
            if initial in text:
                if self._native.markers.search(text):
                    return False
                break
        run.before = (run.before + text)[-BEFORE_CHARS:]
        if markdown.is_watching or "\n" in text or "`" in text:
            markdown.add(text)
        return True

    def abandon(self) -> None:
        # No call is open on the stream: what is on trial is half a call, and is released.
        self._draft, self.suppressed = None, True
        self.close()

    def _spans_channels(self) -> bool:
        return self._draft is not None

    def _switch_channel(self, channel: Channel) -> None:
        super()._switch_channel(channel)
        self._markdown = self._markdowns[channel]

    def _read_text(self, text: str, pos: int, final: bool) -> int | None:
        if self._literal:
            end, self._literal = pos + self._literal, 0
            self._emit(text[pos:end])
            return end
        return super()._read_text(text, pos, final)

    def _emit(self, text: str) -> None:
        self._markdown.add(text)
        super()._emit(text)

    def _is_quoted(self) -> bool:
        markdown = self._markdown
        is_code = markdown.is_in_block or markdown.is_in_span
        return is_code or self._text.before.endswith(_QUOTES)

    def _read_quoted(
        self, marker: Match[str], candidates: Sequence[Candidate], text: str, final: bool
    ) -> int | None:
        if self._markdown.is_in_block:  # the marker of each line is judged for itself
            self._emit(marker[0])
            return marker.end()
        return self._try_candidates(marker, candidates, text, final, is_quoted=True)

    def _read_candidates(
        self, marker: Match[str], candidates: Sequence[Candidate], text: str, final: bool
    ) -> int | None:
        return self._try_candidates(marker, candidates, text, final, is_quoted=False)

    def _try_candidates(
        self,
        marker: Match[str],
        candidates: Sequence[Candidate],
        text: str,
        final: bool,
        *,
        is_quoted: bool,
    ) -> int | None:
        if self._long_releases < _MAX_LONG_RELEASES:
            context = replace(self._context, output=CallOutput())
            decision = decide(candidates, text, final, context, self._text.before)
            match decision.verdict:
                case Verdict.UNDECIDED:
                    return None
                case Verdict.REMOVED if self._text is self._after_call and self._text.is_blank:
                    # A stray token directly behind a call belongs to it.
                    self._notice(NoticeCode.MARKUP_REMOVED, marker[0])
                    return marker.end()
                case Opening(reader=reader, pos=start):
                    grammar = decision.candidate.grammar
                    self._reader = Trial(
                        reader,
                        context,
                        grammar,
                        text[marker.start() : start],
                        marker[0],
                        None if is_quoted else self._deliver,
                    )
                    return start
        if not is_quoted:
            self._notice(NoticeCode.CANDIDATE_RELEASED, marker[0])
        self._emit(marker[0])
        return marker.end()

    def _deliver(self, grammar: Grammar, events: Sequence[Event], chars: int) -> bool:
        """Send the events of a whole call; return False if too many wait for the end."""
        out = self.out
        if self.suppressed:
            self._notice(NoticeCode.SHADOW_CALL_REMOVED)
            events = ()
        elif self._channel is Channel.REASONING and grammar.defers_in_reasoning:
            if self._deferred_chars + chars > self._context.limits.held_chars:
                return False
            self._deferred_chars += chars
            out = self.deferred
        family = self._native.family_of(grammar)
        if events and family not in self._seen_families:
            self._seen_families.add(family)
            self.out.append(Notice(NoticeCode.FAMILY_READ, family))
        out.extend(merge_deltas(events))
        self._saw_region, self._at_start, self._aside = True, False, False
        self._text = self._after_call = TextRun()
        self._markdown.skip()
        return True

    def _end_region(self) -> None:
        trial, self._reader = self._reader, None
        if isinstance(trial, Trial) and trial.is_released:
            self._literal = trial.literal
            self._long_releases += trial.is_long
            if not trial.is_quoted:
                self._notice(NoticeCode.CANDIDATE_RELEASED, trial.marker)

    def _begin_draft(self, limit: int) -> Draft:
        return _BoundedDraft(limit, self._emit)


class Trial:
    """Reads a region and keeps its text, until a call is whole or the text is released."""

    def __init__(
        self,
        reader: Reader,
        context: Context,
        grammar: Grammar,
        opener: str,
        marker: str,
        deliver: Callable[[Grammar, Sequence[Event], int], bool] | None,
    ) -> None:
        """`context` is that of `reader`, with an output of its own. `opener` is the text up to
        where the reader begins, and `marker` its beginning, which is not read again. `deliver` is
        None in a quotation: the text of a whole call is text.
        """
        self.closed = False
        self.rewind = ""
        self.marker = marker
        self.literal = len(marker)
        """The length of the text in `rewind` that is not read again."""
        self.is_quoted = deliver is None
        self.is_released = False
        self.is_long = False
        self._reader = reader
        self._context = context
        self._grammar = grammar
        self._deliver = deliver
        self._has_delivered = False
        self._seen = 0  # events of the output
        self._parts = [opener]  # the text since the last delivered call
        self._chars = len(opener)

    def step(self, text: str, pos: int, final: bool) -> int | None:
        limits = self._context.limits
        try:
            end = self._reader.step(text, pos, final)
        except LimitExceeded:
            self._release(is_long=True)
            return pos
        if end is not None:
            self._parts.append(text[pos:end])
            self._chars += end - pos
        if self._chars > limits.held_chars:
            self._release(is_long=True)
        elif self._is_refuted():
            # The rest are the arguments of a call that the end of the text cuts off.
            self._release(is_cut=final and end == len(text))
        elif self._reader.closed:
            self._close()
        return pos if end is None and self.closed else end

    def _is_refuted(self) -> bool:
        """Read new events; return True if they are not a whole call of a declared tool."""
        deliver, events = self._deliver, self._context.output.events
        for event in events[self._seen :]:
            self._seen += 1
            match event:
                case ToolCallStart(name=name) if not self._context.declares(name):
                    return True
                case ToolCallFailed():
                    return True
                case ToolCallEnd() if deliver is None:
                    self.literal = self._chars
                case ToolCallEnd() if deliver is not None:
                    if not deliver(self._grammar, events[: self._seen], self._chars):
                        return True
                    del events[: self._seen]
                    self._seen, self._has_delivered = 0, True
                    self._parts, self._chars, self.literal = [], 0, 0
        return False

    def _close(self) -> None:
        if self._deliver and self._has_delivered and not self._has_opener():
            self.closed = True
            self._deliver(self._grammar, self._context.output.events, 0)
        else:
            self._release()

    def _has_opener(self) -> bool:
        """Return whether an opener was read after the last call."""
        markers, text, pos = MarkerSet(self._grammar.spellings), "".join(self._parts), 0
        while marker := markers.search(text, pos):
            if not _is_closer(marker):
                return True
            pos = marker.end()
        return False

    def _release(self, *, is_cut: bool = False, is_long: bool = False) -> None:
        self.closed = self.is_released = True
        self.is_long = is_long or self._chars > self._context.limits.header_chars
        self.rewind = "".join(self._parts)
        if self._has_delivered:
            self.rewind = self._without_closer(self.rewind)
        if is_cut:
            self.literal = len(self.rewind)

    def _without_closer(self, text: str) -> str:
        """Remove the end of the delivered call."""
        start = len(text) - len(text.lstrip(_BESIDE_CALL))
        marker = MarkerSet(self._grammar.spellings).match(text, start)
        return text[marker.end() :] if marker and _is_closer(marker) else text


def _is_closer(marker: Match[str]) -> bool:
    return (marker.lastgroup or PARTIAL).endswith("_END")


class _BoundedDraft(Draft):
    """A draft that is text, and not a call, if it is longer than the limit."""

    def __init__(self, limit: int, emit: Callable[[str], None]) -> None:
        super().__init__(limit)
        self._emit = emit
        self._is_text = False

    def add(self, text: str) -> None:
        if self._is_text:
            self._emit(text)
            return
        try:
            super().add(text)
        except LimitExceeded:
            self._is_text = True
            self._emit(super().text())

    def text(self) -> str:
        return "" if self._is_text else super().text()
