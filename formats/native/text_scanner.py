"""Scanner that finds calls in the text of one response and hands each to its grammar's reader.

Text outside calls passes unchanged, with two exceptions: text of white space next to a call is
dropped, and stray special tokens are removed. An opening marker is only a candidate. It is text if
it follows a backtick (the model quotes it), and a draft if it is inside a <think> that is closed
later; otherwise its grammar decides. Only undecided text is held between feeds.

One scanner reads both text and reasoning, because a model may leave its reasoning by opening a
call. Reasoning with markers of its own inside the text becomes reasoning; nothing turns reasoning
into text.
"""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum
from re import Match

from formats.errors import LimitExceeded
from formats.events import CallFault, Event, Notice, NoticeCode, ReasoningDelta, TextDelta
from formats.native.format import (
    CALL,
    FINAL_MARKER,
    REASONING_BEGIN,
    REASONING_END,
    START_CALL,
    THINK,
    THINK_END,
    TURN_MARKER,
    Candidate,
    NativeFormat,
    decide,
)
from formats.native.grammar import Context, Grammar, Opening, Passage, Reader, Verdict
from formats.native.markers import PARTIAL

_SPACE = " \t\r\n\f\v"
_BLANKS = re.compile(rf"[{_SPACE}]*")
_TO_END = re.compile(r"\s{0,256}\Z")

# Longer white space is intended, and not worth holding.
_MAX_BLANK_CHARS = 4096
# As long as the longest header that a marker may refer back to.
BEFORE_CHARS = 96
# In a text full of markers, more notices tell nothing new.
_MAX_NOTICES = 32


class Channel(Enum):
    CONTENT = "content"
    REASONING = "reasoning"


class TextScanner:
    def __init__(self, native: NativeFormat, context: Context) -> None:
        self.out: list[Event] = []
        """Events read so far; the owner takes them after each feed."""
        self.deferred: list[Event] = []
        """Calls in the reasoning that may turn out to be drafts."""
        self.suppressed = False
        """True if the response has structured calls: calls in the text are copies; drop them."""
        self._native = native
        self._context = context
        self._channel = Channel.CONTENT
        self._reader: Reader | None = None
        self._pending = ""  # undecided text
        self._text = TextRun(strips=native.opens_in_reasoning)
        # An undecided candidate that began in the other channel.
        self._carried: TextDelta | ReasoningDelta | None = None
        self._thinking = native.opens_in_reasoning
        self._aside = native.opens_in_reasoning  # inside reasoning that came in the content
        self._at_start = True  # the content has begun with nothing but white space
        self._awaits_answer = True  # after the end, nothing can show that a call was a draft
        self._draft: Draft | None = None  # a candidate inside an open <think>, and what follows it
        self._saw_region = False
        self._notice_count = 0

    def try_pass(self, text: str, channel: Channel) -> bool:
        """Record `text` and return True if it may be sent unchanged; else do nothing."""
        run = self._text
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
        return True

    def feed(self, text: str, channel: Channel) -> None:
        if channel is not self._channel:
            self._switch_channel(channel)
        if self._carried and not self._decide_carried(text, final=False):
            return
        self._run(self._pending + text, final=False)

    def close(self) -> None:
        """Decide all held text: the text has ended, or a structured call follows."""
        if self._carried:
            self._decide_carried("", final=True)
        self._run(self._pending, final=True)
        if self._text.blank and not self._saw_region:
            self.out.append(self._delta(self._text.blank))
        self._text = TextRun()

    def abandon(self) -> None:
        """Release held text after a failure of the message; an open call stays open."""
        if self._reader is None:
            self._draft, self.suppressed = None, True
            self.close()

    def _switch_channel(self, channel: Channel) -> None:
        """Continue in the other channel; only a call of special tokens may span both."""
        if not self._spans_channels():
            self.close()
        elif self._reader is None and self._draft is None:
            self._carried = self._delta(self._pending)
        if self._at_start:  # the upstream separates the reasoning itself
            self._aside = self._thinking = False
        self._text = TextRun()
        self._channel = channel

    def _spans_channels(self) -> bool:
        """Return whether what has begun may continue in the other channel."""
        if self._reader is not None:
            return self._context.output.events is not self.deferred
        return self._draft is not None or self._may_span_channels()

    def _may_span_channels(self) -> bool:
        """Return whether the undecided text may begin a call of both channels."""
        marker = self._native.markers.match(self._pending)
        if marker is None or marker.lastgroup != CALL:
            return False
        candidates = self._native.candidates(self._pending, 0)
        return any(not grammar.defers_in_reasoning for grammar, _ in candidates)

    def _decide_carried(self, text: str, *, final: bool) -> bool:
        """Try to decide a candidate of the other channel; as text, it is sent there."""
        text = self._pending + text
        candidates = self._native.candidates(text, 0)
        verdict, _ = decide(candidates, text, final, self._context, "")
        if verdict is Verdict.UNDECIDED:
            self._pending = text
            return False
        if verdict is Verdict.RELEASED and self._carried:
            self.out.append(self._carried)
            self._pending = self._pending[len(self._carried.text) :]
        self._carried = None
        return True

    def _run(self, text: str, final: bool) -> None:
        self._pending = ""  # `text` begins with it: after an error it must not be read again
        pos: int | None = 0
        done = 0
        while pos is not None:
            done = pos
            if self._reader is not None:
                pos = self._reader.step(text, pos, final)
                if self._reader.rewind and pos is not None:
                    text, pos = self._reader.rewind + text[pos:], 0
                    self._reader.rewind = ""
                if self._reader.closed:
                    self._end_region()
            elif done == len(text) and not (final and self._draft):
                break
            elif self._draft is not None:
                pos = self._hold_draft(self._draft, text, pos, final)
            else:
                pos = self._read_text(text, pos, final)
        self._pending = text[done:]

    def _read_text(self, text: str, pos: int, final: bool) -> int | None:
        marker = self._search(text, pos)
        if marker is None:
            self._emit(text[pos:])
            return len(text)
        if marker.start() > pos:
            self._emit(text[pos : marker.start()])
            return marker.start()
        role = marker.lastgroup or PARTIAL
        if role == PARTIAL and not final:
            return None
        if role == FINAL_MARKER:
            if not _TO_END.match(text, marker.end()):
                role = PARTIAL  # before the end it is text
            elif not final:
                return None
        if role not in (CALL, START_CALL):
            return self._read_other(role, marker[0], pos)
        candidates = self._native.candidates(text, pos, at_start=role == START_CALL)
        if self._is_quoted():
            return self._read_quoted(marker, candidates, text, final)
        if self._thinking:
            self._draft = self._begin_draft(self._context.limits.held_chars)
            return pos
        return self._read_candidates(marker, candidates, text, final)

    def _read_candidates(
        self, marker: Match[str], candidates: Sequence[Candidate], text: str, final: bool
    ) -> int | None:
        """Read a marker that may open a call."""
        pos, before = marker.start(), self._text.before
        verdict, (grammar, opener) = decide(candidates, text, final, self._context, before)
        match verdict:
            case Verdict.UNDECIDED:
                return None
            case Verdict.RELEASED:
                self._notice(NoticeCode.CANDIDATE_RELEASED, marker[0])
                self._text.await_closers(candidate.closer for candidate in candidates)
                self._emit(marker[0])
                return marker.end()
            case Verdict.REMOVED if self._text.awaits_closer:
                self._text.close(opener.lastgroup)
                self._emit(marker[0])
                return marker.end()
            case Passage() if self._text.awaits(opener.lastgroup):
                self._text.close(opener.lastgroup)
                self._emit(marker[0])
                return marker.end()
            case Verdict.REMOVED:
                self._notice(NoticeCode.MARKUP_REMOVED, marker[0])
                return marker.end()
            case Verdict.TRUNCATED:
                self._begin_region(grammar)
                self._context.output.fail(CallFault.TRUNCATED, text[pos:])
                self._end_region()
                return len(text)
            case Passage(is_reasoning=is_reasoning, pos=start):
                self._begin_passage(text[pos:start], is_reasoning=is_reasoning)
                return start
            case Opening(reader=reader, pos=start):
                self._begin_region(grammar)
                self._reader = reader
                return start

    def _is_quoted(self) -> bool:
        """Return whether a marker that follows is quoted: the model talks about it."""
        return self._text.before.endswith("`")

    def _read_quoted(
        self, marker: Match[str], candidates: Sequence[Candidate], text: str, final: bool
    ) -> int | None:
        """Read a quoted marker that could open a call."""
        self._text.await_closers(candidate.closer for candidate in candidates)
        self._emit(marker[0])
        return marker.end()

    def _search(self, text: str, pos: int) -> Match[str] | None:
        if self._native.starters and self._at_start and self._channel is Channel.CONTENT:
            start = _BLANKS.match(text, pos).end()  # type: ignore[union-attr]
            if starter := self._native.starters.match(text, start):
                return starter
        return self._native.markers.search(text, pos)

    def _read_other(self, role: str, marker: str, pos: int) -> int:
        """Read a marker that opens no call: of reasoning, the end of a turn, or a quoted one."""
        is_quoted = self._is_quoted()
        if role in (REASONING_BEGIN, REASONING_END) and not is_quoted:
            self._read_reasoning_marker(marker, begins=role == REASONING_BEGIN)
            return pos + len(marker)
        if role in (TURN_MARKER, FINAL_MARKER) and not is_quoted:
            self._notice(NoticeCode.MARKUP_REMOVED, marker)
            return pos + len(marker)
        if role in (THINK, THINK_END) and not is_quoted and self._channel is Channel.CONTENT:
            self._thinking = role == THINK and self._awaits_answer
        self._emit(marker)
        return pos + len(marker)

    def _read_reasoning_marker(self, marker: str, *, begins: bool) -> None:
        if self._channel is Channel.CONTENT:
            self._thinking = begins and self._awaits_answer
        self._begin_passage(marker, is_reasoning=begins, strips=begins or self._aside)

    def _begin_passage(self, marker: str, *, is_reasoning: bool, strips: bool = False) -> None:
        """Begin text that is reasoning or not; in the reasoning channel, all is reasoning."""
        self._saw_region, self._at_start = True, False
        self._aside = is_reasoning and self._channel is Channel.CONTENT
        splits = NoticeCode.REASONING_SPLIT if self._aside else NoticeCode.MARKUP_REMOVED
        self._notice(splits, marker)
        self._text = TextRun(strips=strips)

    def _begin_draft(self, limit: int) -> "Draft":
        return Draft(limit)

    def _hold_draft(self, draft: "Draft", text: str, pos: int, final: bool) -> int | None:
        """Hold a call inside an open <think>: it is a draft if </think> follows, else a call."""
        marker = self._native.think_end.search(text, pos)
        if marker and marker.lastgroup != PARTIAL:
            draft.add(text[pos : marker.start()])
            self._draft, self._thinking = None, False
            self._emit(draft.text())
            if marker.lastgroup == REASONING_END:
                self._read_reasoning_marker(marker[0], begins=False)
            else:
                self._emit(marker[0])
            return marker.end()
        if final:
            draft.add(text[pos:])
            self._draft, self._thinking, self._awaits_answer = None, False, False
            self._run(draft.text(), final=True)
            return len(text)
        end = marker.start() if marker else len(text)
        draft.add(text[pos:end])
        return end if end > pos else None

    def _begin_region(self, grammar: Grammar) -> None:
        self._saw_region, self._at_start = True, False
        output = self._context.output
        output.held_chars = None
        output.is_empty = True
        if self.suppressed:
            self._notice(NoticeCode.SHADOW_CALL_REMOVED)
            output.events = deque(maxlen=0)
        elif self._channel is Channel.REASONING and grammar.defers_in_reasoning:
            output.events = self.deferred
            output.held_chars = self._context.limits.held_chars
        else:
            output.events = self.out

    def _end_region(self) -> None:
        if self._context.output.is_empty:
            self._notice(NoticeCode.MARKUP_REMOVED, "a section without a call")
        self._reader = None
        self._aside = False  # the call has ended the reasoning
        self._text = TextRun()

    def _notice(self, code: NoticeCode, detail: str = "") -> None:
        self._notice_count += 1
        if self._notice_count <= _MAX_NOTICES:
            self.out.append(Notice(code, detail))

    def _emit(self, text: str) -> None:
        if text := self._text.add(text):
            self._at_start = self._at_start and self._channel is Channel.REASONING
            self.out.append(self._delta(text))

    def _delta(self, text: str) -> TextDelta | ReasoningDelta:
        is_text = self._channel is Channel.CONTENT and not self._aside
        return TextDelta(text) if is_text else ReasoningDelta(text)


class TextRun:
    """The text between two calls. It is dropped if it is all white space, so that is held."""

    def __init__(self, *, strips: bool = False) -> None:
        """`strips`: leading white space is dropped, too."""
        self._strips = strips
        self.blank = ""
        self.is_blank = True
        self.before = ""
        """The last characters of the text."""
        self._closers: set[str] = set()  # closers of markers that are text

    @property
    def awaits_closer(self) -> bool:
        """True after an opener that is text: what follows it, up to its closer, is text too."""
        return bool(self._closers)

    def awaits(self, role: str | None) -> bool:
        return role in self._closers

    def await_closers(self, roles: Iterable[str | None]) -> None:
        self._closers.update(role for role in roles if role is not None)

    def close(self, role: str | None) -> None:
        self._closers.discard(role or "")

    def add(self, text: str) -> str:
        """Return the text that may be sent now."""
        if not text:
            return ""
        self.before = (self.before + text)[-BEFORE_CHARS:]
        if not self.is_blank:
            return text
        text = self.blank + text
        if len(text) <= _MAX_BLANK_CHARS and not text.strip(_SPACE):
            self.blank = text
            return ""
        self.blank, self.is_blank = "", False
        return text.lstrip(_SPACE) if self._strips else text


class Draft:
    """Text held until it is known whether it is a draft."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[str] = []
        self._chars = 0

    def add(self, text: str) -> None:
        self._parts.append(text)
        self._chars += len(text)
        if self._chars > self._limit:
            raise LimitExceeded("held_chars", self._limit)

    def text(self) -> str:
        return "".join(self._parts)
