"""Grammar of calls in tags: a block of functions, each with parameters whose values are text.

    BLOCK { FUNCTION { PARAMETER value PARAMETER_END } FUNCTION_END } BLOCK_END

Outside a block, a function counts only if its tool is declared. CUT_FUNCTION is the beginning of a
FUNCTION that a line break or another tag cuts off: a broken call.

A value may contain anything, so a closing tag counts only if another tag of the structure, or the
end of the text, follows it. A parameter of type string streams as it arrives; any other is
converted once it is complete. At the end of the text only BLOCK_END may be missing; if FUNCTION_END
is missing, the call is truncated.

Models wrap all arguments in a single parameter, `arguments` or `input`, that the tool does not
have; if it holds an object of the tool's parameters, that object is the arguments.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from re import Match
from typing import Any, NamedTuple

from formats.events import CallFault, NoticeCode
from formats.json_codec import encode_string
from formats.native.grammar import Context, Opening, StateReader, Verdict
from formats.native.grammars.nested_elements import element_json, may_nest
from formats.native.grammars.parameter_values import STRING, Value, coerce, json_or_coerced
from formats.native.grammars.streamed_arguments import Outcome, StreamedArguments
from formats.native.markers import PARTIAL, Atoms, MarkerSet

BLOCK = "BLOCK"
FUNCTION = "FUNCTION"
PARAMETER = "PARAMETER"
PARAMETER_END = "PARAMETER_END"
FUNCTION_END = "FUNCTION_END"
BLOCK_END = "BLOCK_END"
CUT_FUNCTION = "CUT_FUNCTION"

_CLOSERS = {BLOCK: BLOCK_END, FUNCTION: FUNCTION_END, PARAMETER: PARAMETER_END}
_SPACE = re.compile(r"\s*")
# Of openers that follow an opener: a block in a block, or a repeated opener.
_NESTED_CHARS = 128
_WRAPPERS = frozenset({"arguments", "input"})


class Function(NamedTuple):
    name: str
    is_closed: bool = False
    """True if the tag closes itself: the call has no arguments."""


class Parameter(NamedTuple):
    key: str
    is_string: bool | None = None
    """True if the tag says that the value is a string; None if the schema decides."""


class TagGrammar:
    defers_in_reasoning = True

    def __init__(
        self,
        tags: Mapping[str, Sequence[Atoms]],
        read_function: Callable[[str], Function],
        read_parameter: Callable[[str], Parameter],
        *,
        strips_newlines: bool,
        inline: bool = False,
        space: re.Pattern[str] = _SPACE,
        elements: re.Pattern[str] | None = None,
        removes_stray_tags: bool = False,
    ) -> None:
        """`strips_newlines`: one newline on each side of a value is markup. `inline`: only if the
        value begins with one. `space` matches what may stand between tags. `elements`: a parameter
        is an element named after its key, and its value may be nested elements; the pattern matches
        their tags, with the groups `begin` and `end`. `removes_stray_tags`: the tags are special
        tokens, so a closing tag outside a block is removed, not sent as text.
        """
        self.spellings = tags
        self.closers: Mapping[str, str] = _CLOSERS if removes_stray_tags else {}
        self.read_function = read_function
        self.read_parameter = read_parameter
        self.strips_newlines = strips_newlines
        self.inline = inline
        self.space = space
        self.elements = elements
        self.openers = MarkerSet(tags)
        self.markers = self._only(*(role for role in tags if role != CUT_FUNCTION))
        self.ends = self._only(FUNCTION_END, BLOCK_END)
        self.after_function = self._only(BLOCK, FUNCTION, BLOCK_END)

    def element_end(self, tag: str) -> str | None:
        """Return the element that a closing tag names."""
        match = self.elements and self.elements.match(tag)
        return match["end"] if match else None

    def _only(self, *roles: str) -> MarkerSet:
        return self.openers.only(*(role for role in roles if role in self.spellings))

    def open(
        self, text: str, opener: Match[str], final: bool, context: Context, before: str
    ) -> Opening | Verdict:
        match opener.lastgroup:
            case "FUNCTION":
                if context.declares(self.read_function(opener[0]).name):
                    return Opening(TagReader(self, context), opener.start())
            case "CUT_FUNCTION":
                return self._open_cut(text, opener, final, context)
            case "BLOCK":
                return self._open_block(text, opener.end(), final, context)
        is_stray = opener.lastgroup in self.closers.values()
        return Verdict.REMOVED if is_stray else Verdict.RELEASED

    def _open_block(self, text: str, pos: int, final: bool, context: Context) -> Opening | Verdict:
        start = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
        marker = self.openers.match(text, start)
        while marker and marker.lastgroup == BLOCK and marker.end() - pos < _NESTED_CHARS:
            start = _SPACE.match(text, marker.end()).end()  # type: ignore[union-attr]
            marker = self.openers.match(text, start)
        if start - pos > context.limits.header_chars:
            return Verdict.RELEASED
        if start == len(text) or (marker and marker.lastgroup == PARTIAL):
            return Verdict.TRUNCATED if final else Verdict.UNDECIDED
        if marker and marker.lastgroup in (FUNCTION, CUT_FUNCTION, BLOCK_END):
            return Opening(TagReader(self, context), start)
        return Verdict.RELEASED

    def _open_cut(
        self, text: str, opener: Match[str], final: bool, context: Context
    ) -> Opening | Verdict:
        """Decide whether a cut function outside a block is a broken call: a parameter follows."""
        start = _SPACE.match(text, opener.end()).end()  # type: ignore[union-attr]
        if start - opener.end() > context.limits.header_chars:
            return Verdict.RELEASED
        marker = self.markers.match(text, start)
        if (start == len(text) or (marker and marker.lastgroup == PARTIAL)) and not final:
            return Verdict.UNDECIDED
        if marker and marker.lastgroup == PARAMETER:
            return Opening(TagReader(self, context), opener.start())
        return Verdict.RELEASED


class TagReader(StateReader):
    def __init__(
        self,
        grammar: TagGrammar,
        context: Context,
        function: Function | None = None,
        tag: str = "",
    ) -> None:
        """`function`: its opening `tag` has been read, and the reader begins inside."""
        super().__init__(context, self._begin if function else self._between)
        self._grammar = grammar
        self._function = ""
        self._separator = "{"  # written before the next parameter
        self._value: Value
        self._strips_end: bool | None = None  # the newline before the value's closing tag is markup
        self._key = ""
        self._may_nest = False  # the value may be nested elements
        self._depth = 0  # of elements in the value that have the name of the parameter
        self._wrapper: Value | None = None  # a first parameter that may wrap all arguments
        self._json: StreamedArguments
        self._opened = function
        self._tag = tag

    def _begin(self, text: str, pos: int, final: bool) -> int | None:
        if self._opened:
            self._start(self._opened, self._tag)
        return pos

    def _between(self, text: str, pos: int, final: bool) -> int | None:
        """Read outside functions: another function, the end of the block, or other text."""
        start = self._grammar.space.match(text, pos).end()  # type: ignore[union-attr]
        marker = self._grammar.openers.match(text, start)
        if start == len(text) or (marker and marker.lastgroup == PARTIAL):
            if not final:
                return None
            self.closed = True
            if marker and not self._grammar.ends.may_be(marker[0]):
                self._context.output.fail(CallFault.TRUNCATED, marker[0])
            return len(text)
        match marker.lastgroup if marker else None:
            case "FUNCTION":
                tag = marker[0]  # type: ignore[index]
                self._start(self._grammar.read_function(tag), tag)
                return marker.end()  # type: ignore[union-attr]
            case "CUT_FUNCTION":
                self._context.output.fail(CallFault.BAD_HEADER, marker[0])  # type: ignore[index]
                self._state = self._skip
                return marker.end()  # type: ignore[union-attr]
            case "BLOCK_END":
                self._state = self._after_block
                return marker.end()  # type: ignore[union-attr]
        self.closed = True
        return pos

    def _after_block(self, text: str, pos: int, final: bool) -> int | None:
        """Drop a repeated closing tag."""
        start = self._grammar.space.match(text, pos).end()  # type: ignore[union-attr]
        marker = self._grammar.ends.match(text, start)
        if not final and (start == len(text) or (marker and marker.lastgroup == PARTIAL)):
            return None
        if marker and marker.lastgroup == BLOCK_END:
            return marker.end()
        self.closed = True
        return pos

    def _start(self, function: Function, tag: str) -> None:
        if not function.name:
            self._context.output.fail(CallFault.MISSING_NAME, tag)
            self._state = self._between if function.is_closed else self._skip
            return
        self._function = self._context.toolbox.resolve(function.name)
        self._separator = "{"
        self._wrapper = None
        self._context.output.start(self._function)
        if function.is_closed:
            self._end()
        else:
            self._state = self._inside

    def _end(self) -> None:
        output = self._context.output
        declared = self._context.toolbox.parameters(self._function)
        if self._wrapper and (wrapped := self._wrapper.unwrap(declared)):
            output.notice(NoticeCode.ARGUMENTS_UNWRAPPED)
            output.arguments(wrapped)
        else:
            self._keep_wrapper()
            output.arguments("{}" if self._separator == "{" else "}")
        output.end()
        self._state = self._between

    def _keep_wrapper(self) -> None:
        """Write a held first parameter as it is: it wraps nothing."""
        if self._wrapper:
            self._wrapper.write()
            self._wrapper = None

    def _inside(self, text: str, pos: int, final: bool) -> int | None:
        """Read inside a function: a parameter, a JSON object, or the end of the function."""
        start = self._grammar.space.match(text, pos).end()  # type: ignore[union-attr]
        if text[start : start + 1] == "{" and self._separator == "{":
            self._json = StreamedArguments(self._context, ends=self._grammar.ends)
            self._state = self._read_json
            return start
        marker = self._grammar.markers.search(text, start)
        if (marker.start() if marker else len(text)) - pos > self._context.limits.header_chars:
            self._context.output.fail(CallFault.MALFORMED, text[pos:])
            self._state = self._skip
            return pos
        if marker is None or marker.lastgroup == PARTIAL:
            return self._cut_short(text, pos, final)
        if noise := text[start : marker.start()]:  # a parameter in an unknown form
            self._context.output.fail(CallFault.MALFORMED, noise)
            self._state = self._skip
            return marker.start()
        match marker.lastgroup:
            case "PARAMETER" if not self._grammar.read_parameter(marker[0]).key:
                self._context.output.fail(CallFault.MALFORMED, marker[0])
                self._state = self._skip
            case "PARAMETER":
                self._start_value(marker)
            case "FUNCTION_END":
                self._end()
            case "BLOCK_END" | "BLOCK" | "FUNCTION":  # FUNCTION_END is missing
                self._end()
                return marker.start()
        return marker.end()

    def _cut_short(self, text: str, pos: int, final: bool) -> int | None:
        if not final:
            return None
        self._context.output.fail(CallFault.TRUNCATED, text[pos:])
        self.closed = True
        return len(text)

    def _read_json(self, text: str, pos: int, final: bool) -> int | None:
        if pos == len(text) and not final:
            return None
        outcome, end = self._json.read(text, pos, final)
        if outcome is Outcome.COMPLETE:
            self._separator = ""
            self._state = self._after_json
        elif outcome is Outcome.FAILED:
            self.rewind = self._json.rewind
            self._state = self._skip
        return end

    def _after_json(self, text: str, pos: int, final: bool) -> int | None:
        marker = self._grammar.ends.search(text, pos)
        if (marker.start() if marker else len(text)) - pos > self._context.limits.header_chars:
            self._context.output.fail(CallFault.MALFORMED, text[pos:])
            self._state = self._skip
            return pos
        if marker and marker.lastgroup != PARTIAL:
            self._context.output.end()
            self._state = self._between
            return marker.end() if marker.lastgroup == FUNCTION_END else marker.start()
        return self._cut_short(text, pos, final)

    def _skip(self, text: str, pos: int, final: bool) -> int | None:
        """Drop the rest of a broken call, up to the end of its function or block."""
        marker = self._grammar.after_function.search(text, pos)
        closer = self._grammar.ends.search(text, pos)
        if closer and closer.lastgroup == FUNCTION_END:
            if not marker or closer.start() < marker.start():
                self._state = self._between
                return closer.end()
        if marker and marker.lastgroup != PARTIAL:
            self._state = self._between
            return marker.start()
        if final:
            self.closed = True
            return len(text)
        ends = [match.start() for match in (marker, closer) if match]
        end = min(ends, default=len(text))
        return end if end > pos else None

    def _start_value(self, marker: Match[str]) -> None:
        parameter = self._grammar.read_parameter(marker[0])
        toolbox = self._context.toolbox
        self._keep_wrapper()
        may_wrap = (
            self._separator == "{"
            and parameter.key in _WRAPPERS
            and self._function in toolbox
            and parameter.key not in toolbox.parameters(self._function)
        )
        self._key = parameter.key
        self._strips_end = None
        self._depth = 0
        schema = toolbox.schema(self._function, parameter.key)
        self._may_nest = self._grammar.elements is not None and may_nest(schema)
        key = self._separator + encode_string(parameter.key).decode() + ": "
        self._separator = ", "
        self._value = Value(
            self._context,
            key,
            self._conversion(parameter, schema),
            strips=self._grammar.strips_newlines,
            may_wrap=may_wrap,
        )
        self._state = self._read_value

    def _conversion(self, parameter: Parameter, schema: Any) -> Callable[[str], str] | None:
        """Return the function that converts the value to JSON; None for a string."""
        if self._may_nest and self._grammar.elements:
            return partial(element_json, schema=schema, tags=self._grammar.elements)
        if parameter.is_string:
            return None
        types = self._context.toolbox.types(self._function, parameter.key)
        if parameter.is_string is False:
            return partial(json_or_coerced, types=types)
        return None if types == STRING else partial(coerce, types=types)

    def _read_value(self, text: str, pos: int, final: bool) -> int | None:
        if self._strips_end is None and pos < len(text):
            is_inline = self._grammar.inline and text[pos] != "\n"
            self._strips_end = self._grammar.strips_newlines and not is_inline
        marker = self._grammar.markers.search(text, pos)
        whole = marker is not None and marker.lastgroup != PARTIAL
        closes = self._closes(text, marker, final) if marker and whole else None
        if marker and whole and closes is False:
            if self._may_nest:
                self._count_depth(marker)
            self._value.add(text[pos : marker.end()])
            return marker.end()
        end = marker.start() if marker else len(text)
        if final and not whole:
            end = len(text)
        elif self._strips_end and text.endswith("\n", pos, end):
            end -= 1  # the newline before a closing tag is markup: hold it until that is decided
        if end > pos:
            self._value.add(text[pos:end])
            return end
        if marker and closes:
            if self._value.may_wrap:
                self._wrapper = self._value
            else:
                self._value.write()
            self._state = self._inside
            return marker.end() if marker.lastgroup == PARAMETER_END else marker.start()
        return self._cut_short(text, pos, final)

    def _count_depth(self, marker: Match[str]) -> None:
        """Count the open elements that have the name of the parameter."""
        if marker.lastgroup == PARAMETER:
            self._depth += self._grammar.read_parameter(marker[0]).key == self._key
        elif marker.lastgroup == PARAMETER_END and self._depth:
            self._depth -= self._grammar.element_end(marker[0]) == self._key

    def _closes(self, text: str, marker: Match[str], final: bool) -> bool | None:
        """Return whether a tag inside a value ends it; None if that depends on more text."""
        match marker.lastgroup:
            case "PARAMETER_END":
                if self._depth or self._grammar.element_end(marker[0]) not in (None, self._key):
                    return False
                followers, at_end = self._grammar.markers, True
            case "FUNCTION_END":  # PARAMETER_END is missing
                followers, at_end = self._grammar.after_function, False
            case "BLOCK_END" if FUNCTION_END not in self._grammar.spellings:  # it is missing, too
                followers, at_end = self._grammar.after_function, True
            case "PARAMETER" if self._may_nest:
                return False
            case "PARAMETER":
                if declared := self._context.toolbox.parameters(self._function):
                    return self._grammar.read_parameter(marker[0]).key in declared
                return self._grammar.strips_newlines and text.endswith("\n", 0, marker.start())
            case _:
                return False
        start = self._grammar.space.match(text, marker.end()).end()  # type: ignore[union-attr]
        if start - marker.end() > self._context.limits.header_chars:
            return at_end
        follower = followers.match(text, start)
        if start == len(text) or (follower and follower.lastgroup == PARTIAL):
            return at_end if final else None
        return follower is not None
