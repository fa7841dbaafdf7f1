"""Arguments of a native call, forwarded as they arrive, with a way to recover.

Markers inside a string are data, so a string that the model never closes would swallow the
rest of the response. Therefore the open string is kept from its first end marker on. If the value
turns out to be invalid, or the response ends inside the string, reading resumes at that marker.
"""

from abc import ABC, abstractmethod
from enum import Enum

from formats.arguments import Arguments, Status
from formats.events import CallFault, NoticeCode
from formats.native.grammar import Context, StateReader
from formats.native.grammars.python_arguments import PythonArguments
from formats.native.markers import PARTIAL, MarkerSet


class Outcome(Enum):
    MORE = "the value is not complete yet"
    COMPLETE = "the value is a whole object"
    FAILED = "the call has failed; resume at the next marker"


class StreamedArguments:
    def __init__(
        self,
        context: Context,
        *,
        ends: MarkerSet,
        muted: bool = False,
        withholds_end: bool = False,
        python: bool = False,
    ) -> None:
        """`muted` reads a failed call without output, to find its end. `withholds_end` leaves the
        last brace to the caller, for a call that may still fail. `python` reads keyword arguments
        up to their closing parenthesis instead of JSON."""
        self.rewind = ""
        self._withholds_end = withholds_end
        self._context = context
        self._ends = ends
        self._muted = muted
        self._arguments: Arguments | PythonArguments
        if python:
            self._arguments = PythonArguments(context.limits)
        else:
            self._arguments = Arguments(context.limits)
        self._invalid = CallFault.MALFORMED if python else CallFault.INVALID_JSON
        self._string = ""  # the open string, from its first possible end marker on
        self._marked = False  # whether that marker is whole

    @property
    def empty(self) -> bool:
        return self._arguments.status is Status.EMPTY

    def read(self, text: str, pos: int, final: bool) -> tuple[Outcome, int]:
        """Read `text` from `pos` on; return the outcome and the position reached."""
        if not final and not self._muted and not self._string and pos == 0:
            if not self._may_end(text, 0, len(text)) and self._arguments.continues_string(text):
                self._context.output.arguments(text)
                return Outcome.MORE, len(text)
        forward, end = self._arguments.read(text, pos)
        if self._withholds_end and self._arguments.status is Status.COMPLETE:
            forward = forward[:-1]
        if not self._muted:
            self._context.output.arguments(forward)
        if final and end == len(text):
            self._arguments.finish()
        match self._arguments.status:
            case Status.COMPLETE:
                if self._arguments.decoded_twice:
                    self._context.output.notice(NoticeCode.ARGUMENTS_DECODED_TWICE)
                return Outcome.COMPLETE, end
            case Status.NON_OBJECT:
                return self._fail(CallFault.NON_OBJECT_ARGS), end
            case Status.INVALID:
                self._look_back(text, pos, end)
                return self._resume_at_marker(self._invalid), end
        self._look_back(text, pos, end)
        if not final:
            return Outcome.MORE, end
        fault = self._invalid if self._marked else CallFault.TRUNCATED
        return self._resume_at_marker(fault), end

    def _look_back(self, text: str, pos: int, end: int) -> None:
        """Keep the open string from its first end marker on, or from the beginning of one."""
        if self._arguments.string_start is not None:
            pos = self._arguments.string_start
            self._string, self._marked = "", False
        if not self._string and not self._may_end(text, pos, end):
            return
        self._string += text[pos:end]
        if not self._marked:
            marker = self._ends.search(self._string)
            self._string = self._string[marker.start() :] if marker else ""
            self._marked = marker is not None and marker.lastgroup != PARTIAL
        elif len(self._string) > self._context.limits.held_chars:
            self._string, self._marked = "", False

    def _may_end(self, text: str, pos: int, end: int) -> bool:
        return any(text.find(initial, pos, end) >= 0 for initial in self._ends.initials)

    def _resume_at_marker(self, fault: CallFault) -> Outcome:
        self.rewind = self._string if self._marked else self._arguments.unread
        return self._fail(fault)

    def _fail(self, fault: CallFault) -> Outcome:
        if not self._muted:
            self._context.output.fail(fault)
        return Outcome.FAILED


class CallReader(StateReader, ABC):
    """Forwards the arguments of a call; subclasses read what comes before and after them."""

    _arguments: StreamedArguments

    def _read_arguments(self, text: str, pos: int, final: bool) -> int | None:
        if pos == len(text) and not final:
            return None
        outcome, end = self._arguments.read(text, pos, final)
        if outcome is Outcome.COMPLETE:
            self._end_call()
        elif outcome is Outcome.FAILED:
            self.rewind = self._arguments.rewind
            self._state = self._skip
        return end

    def _end_call(self) -> None:
        self._context.output.end()
        self._state = self._after_call

    @abstractmethod
    def _after_call(self, text: str, pos: int, final: bool) -> int | None: ...

    @abstractmethod
    def _skip(self, text: str, pos: int, final: bool) -> int | None:
        """Drop the rest of a broken call."""
