"""Validation of format definitions: reports every problem with its place, in plain English.

The document comes first: keys, kinds, roles, and each marker alone. If it is valid, every marker is
tried on an example of itself, whole and cut off at every character. A marker is rejected if another
marker hides it, or if it would be read differently when the text arrives in other pieces.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from formats.native.format import CALL, NativeFormat, SplitThinking
from formats.native.kinds import KINDS, Choice, Kind, Option, Role, Text
from formats.native.markers import PARTIAL, Atoms, MarkerSet
from formats.native.template import (
    ATTRIBUTES,
    IN_ATTRIBUTES,
    PLACEHOLDERS,
    READ,
    TAG,
    Part,
    Template,
    placeholders_of,
    split,
)

MAX_GRAMMARS = 8
MAX_SPELLINGS = 8
"""Of one role."""
MAX_TURN_MARKERS = 16
MAX_MARKERS = 64
"""Of a definition."""
MAX_MARKER_CHARS = 80
MAX_LITERAL_CHARS = 48
"""Of a marker. Patterns are nested once per character, and Python's compiler takes a frame each."""
MIN_LITERAL_CHARS = 4
MAX_ALL_CHARS = 2000
"""Of all markers together."""
MAX_PATTERNS = 32
MAX_PATTERN_CHARS = 128
MAX_SAMPLE_CHARS = 4000

_DOCUMENT_KEYS = (
    "grammars",
    "reasoning",
    "turn_markers",
    "final_markers",
    "split_thinking",
    "detect",
    "sample",
)
_SHOWN_CHARS = 60
# Ordinary text begins words and sentences with these, and JSON and Python read them.
_ORDINARY_FIRST = frozenset("{}()\"'`\\.,;:!?-_*")
# A tag of HTML, which answers contain; a prefix or an equals sign makes another tag of it.
_HTML = re.compile(
    r"<(?:!--|!doctype|/?(?:a|abbr|article|aside|b|blockquote|body|br|button|center|code|dd|del|"
    r"details|div|dl|dt|em|font|footer|form|h[1-6]|head|header|hr|html|i|iframe|img|input|ins|kbd|"
    r"label|li|link|main|mark|meta|nav|ol|option|p|pre|script|section|select|small|span|strike|"
    r"strong|style|sub|summary|sup|svg|table|tbody|td|textarea|tfoot|th|thead|title|tr|tt|u|ul|var|"
    r"video)(?![\w:=-]))",
    re.IGNORECASE,
)
_THINK = frozenset({"<think>", "</think>"})
# A heading, a quotation, a comment, or a line of signs.
_MARKDOWN = re.compile(r"#{1,6}\s|>+\s|//|[=>+|~^%&$@#/<\[\]]+\Z")
_PATTERN = re.compile(r"[\w.:/@+~*-]+")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# What may stand beside each other without literal text between.
_NEIGHBOURS = frozenset(
    {
        ("blank", "name"),
        ("name", "blank"),
        ("blank", "key"),
        ("key", "blank"),
        ("blank", TAG),
        ("bars", "word"),
        (ATTRIBUTES, "blank"),
    }
)


class Problem(NamedTuple):
    path: str
    """The place in the document, like `grammars.0.markers.CALL_BEGIN`; empty for all of it."""
    message: str


class Found(NamedTuple):
    """A marker, where it is in the document, and the role under which it is found."""

    path: str
    role: str
    template: Template
    is_searched: bool = True
    """True if it is searched for in the text outside of calls."""
    is_removed: bool = False
    """True if it is removed where it belongs to no call."""


class DocumentCheck:
    """Checks a document as it is written; `problems` has what is wrong."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._markers = 0
        self._chars = 0

    def check(self, document: object) -> None:
        if not isinstance(document, dict):
            self._add("", 'A definition is a JSON object, like {"grammars": […]}.')
            return
        self._keys("", document, _DOCUMENT_KEYS)
        grammars = document.get("grammars")
        if not isinstance(grammars, list) or not 0 < len(grammars) <= MAX_GRAMMARS:
            self._add("grammars", f"List 1 to {MAX_GRAMMARS} grammars.")
        else:
            for index, grammar in enumerate(grammars):
                self._grammar(f"grammars.{index}", grammar)
        self._reasoning(document.get("reasoning", {}))
        for key, in_text in (("turn_markers", False), ("final_markers", True)):
            role = Role(allows=(ATTRIBUTES,))
            self._spellings(key, document.get(key, []), role, MAX_TURN_MARKERS, in_text=in_text)
        split_thinking = document.get("split_thinking")
        if split_thinking is not None and not _is_one_of(split_thinking, [*SplitThinking]):
            self._add("split_thinking", f"Choose one of {_listed(SplitThinking)}, or null.")
        self._detect(document.get("detect", {}))
        self._text("sample", document.get("sample", ""), MAX_SAMPLE_CHARS)
        if self._markers > MAX_MARKERS:
            self._add("", f"There are {self._markers} markers; use at most {MAX_MARKERS}.")
        if self._chars > MAX_ALL_CHARS:
            self._add(
                "", f"All markers together have {self._chars} characters; use {MAX_ALL_CHARS}."
            )

    def _add(self, path: str, message: str) -> None:
        self.problems.append(Problem(path, message))

    def _keys(self, path: str, document: Mapping[Any, Any], known: Iterable[str]) -> None:
        known = list(known)
        for key in document:
            if not _is_one_of(key, known):
                self._add(_join(path, key), f"There is no key {_shown(key)}{_hint(key, known)}")

    def _grammar(self, path: str, grammar: object) -> None:
        if not isinstance(grammar, dict):
            self._add(path, 'A grammar is an object with "kind" and "markers".')
            return
        name = grammar.get("kind")
        if not isinstance(name, str) or name not in KINDS:
            message = f"There is no kind {_shown(name)}" if "kind" in grammar else "Choose a kind"
            self._add(f"{path}.kind", message + _hint(name, KINDS))
            return
        kind = KINDS[name]
        self._keys(path, grammar, ["kind", "markers", *kind.options])
        for key, option in kind.options.items():
            if key in grammar:
                self._option(f"{path}.{key}", grammar[key], option)
        markers = grammar.get("markers")
        if not isinstance(markers, dict):
            roles = ", ".join(role for role in kind.roles if kind.roles[role].is_required)
            self._add(f"{path}.markers", f"Give its markers by role; {name} needs {roles}.")
            return
        self._roles(f"{path}.markers", name, kind, markers)

    def _roles(self, path: str, name: str, kind: Kind, markers: Mapping[Any, Any]) -> None:
        for key in markers:
            if not _is_one_of(key, kind.roles):
                message = f"The kind {name} has no role {_shown(key)}{_hint(key, kind.roles)}"
                self._add(_join(path, key), message)
        for key, role in kind.roles.items():
            if key in markers:
                self._spellings(f"{path}.{key}", markers[key], role, MAX_SPELLINGS)
            if role.is_required and not _has(markers, key):
                self._add(f"{path}.{key}", f"The kind {name} needs a marker for {key}.")
        if kind.needs_one_of and not any(_has(markers, key) for key in kind.needs_one_of):
            self._add(path, f"Give a marker for {' or '.join(kind.needs_one_of)}.")
        for one, other in kind.pairs:
            for missing, given in ((one, other), (other, one)):
                if _has(markers, given) and not _has(markers, missing):
                    self._add(f"{path}.{missing}", f"{given} needs {missing}. Give both, or none.")
        self._elements(path, *(markers.get(key) for key in ("PARAMETER", "PARAMETER_END")))

    def _elements(self, path: str, begins: object, ends: object) -> None:
        """Check parameters whose end names them."""
        if not isinstance(begins, list) or not isinstance(ends, list) or not _name_keys(ends):
            return
        path = f"{path}.PARAMETER_END"
        if not len(begins) == len(ends) == 1:
            message = "If the end names its {key}, give one spelling of the tag and of its end."
            self._add(path, message)
        if _name_keys([*begins, *ends], '"{key}"'):
            self._add(path, "If the end names its {key}, write {key} without an attribute.")

    def _option(self, path: str, value: object, option: Option) -> None:
        match option:
            case Choice(values):
                if not any(value == each and type(value) is type(each) for each in values):
                    self._add(path, f"Choose one of {_listed(values)}.")
            case Text():
                if value != "" and not _matches(option.pattern, value):
                    self._add(path, f"Write {option.description}.")
            case _:
                if not isinstance(value, list) or len(value) > MAX_SPELLINGS:
                    self._add(path, f"List at most {MAX_SPELLINGS} texts.")
                    return
                for index, each in enumerate(value):
                    if not _matches(option.pattern, each):
                        self._add(f"{path}.{index}", f"Write {option.description}.")

    def _reasoning(self, reasoning: object) -> None:
        if not isinstance(reasoning, dict):
            self._add("reasoning", 'Write an object with "begin" and "end", both lists of markers.')
            return
        self._keys("reasoning", reasoning, ["begin", "end"])
        for key in ("begin", "end"):
            markers = reasoning.get(key, [])
            self._spellings(f"reasoning.{key}", markers, Role(allows=(ATTRIBUTES,)), MAX_SPELLINGS)
        if _has(reasoning, "begin") and not _has(reasoning, "end"):
            self._add("reasoning.end", "Reasoning that begins needs a marker for its end.")

    def _detect(self, detect: object) -> None:
        if not isinstance(detect, dict):
            self._add("detect", 'Write an object with "patterns", a list of model names.')
            return
        self._keys("detect", detect, ["patterns"])
        patterns = detect.get("patterns", [])
        if not isinstance(patterns, list) or len(patterns) > MAX_PATTERNS:
            self._add("detect.patterns", f"List at most {MAX_PATTERNS} patterns.")
            return
        for index, pattern in enumerate(patterns):
            if problem := _pattern_problem(pattern):
                self._add(f"detect.patterns.{index}", problem)

    def _text(self, path: str, text: object, limit: int) -> None:
        if not isinstance(text, str) or len(text) > limit:
            self._add(path, f"Write a text of at most {limit} characters.")
        elif any(unicodedata.category(char) in _INVISIBLE and char not in "\n\t" for char in text):
            self._add(path, "Remove the control characters and invisible characters.")

    def _spellings(
        self, path: str, spellings: object, role: Role, limit: int, *, in_text: bool = False
    ) -> None:
        limit = 1 if role.is_single else limit
        if not isinstance(spellings, list) or len(spellings) > limit:
            some = "one marker" if limit == 1 else f"at most {limit} markers"
            self._add(path, f"Write a list of {some}, each in quotes.")
            return
        self._markers += len(spellings)
        for index, text in enumerate(spellings):
            where = path if len(spellings) == 1 else f"{path}.{index}"
            if not isinstance(text, str) or len(text) > MAX_MARKER_CHARS:
                self._add(where, f"A marker is a text of at most {MAX_MARKER_CHARS} characters.")
                continue
            self._chars += len(text)
            for problem in _marker_problems(text, role, in_text=in_text):
                self._add(where, problem)


def overlaps(
    native: NativeFormat, groups: Sequence[Sequence[Found]], own: Sequence[Found]
) -> list[Problem]:
    """Return the markers that cannot be found, or that are read in another way if the text is cut.

    `groups`: the markers of each grammar. `own`: those of the format itself.
    """
    problems: list[Problem | None] = []
    for group in groups:
        markers = _marker_set(group)
        problems += (_hidden(found, group, markers) for found in group)
    if not any(problems):
        calls = [
            found._replace(role=CALL) for group in groups for found in group if found.is_searched
        ]
        every = [*calls, *own]
        problems += (_hidden(found, every, native.markers) for found in every)
        problems += (_hidden_at_start(found, native) for found in every)
    return [problem for problem in problems if problem]


def _marker_set(markers: Iterable[Found]) -> MarkerSet:
    by_role: dict[str, list[Atoms]] = {}
    for found in markers:
        by_role.setdefault(found.role, []).append(found.template.atoms)
    return MarkerSet(by_role)


def _hidden(found: Found, every: Sequence[Found], markers: MarkerSet) -> Problem | None:
    rival = _rival(found, every, markers)
    if rival is None:
        return None
    template = found.template
    others = (
        other for other in every if other.path != found.path and other.template.matches(rival)
    )
    other = next(others, None)
    if other is None and rival in _THINK:
        message = "belongs to the thinking of every format. Remove it, and set split_thinking."
        return Problem(found.path, f"“{template.text}” {message}")
    if other is None:
        message = "can never be found, because a placeholder takes its text. Change it."
        return Problem(found.path, f"“{template.text}” {message}")
    if other.template.text == template.text:
        message = f"is also the marker at {other.path}. Use it for one of them."
    else:
        message = (
            f"begins like “{other.template.text}” at {other.path}, so it cannot always be "
            "found. Change one of them."
        )
    return Problem(found.path, f"“{template.text}” {message}")


def _rival(found: Found, every: Sequence[Found], markers: MarkerSet) -> str | None:
    """Return what is found in place of a marker, or before it is complete; None if nothing is.

    Calls of different grammars may begin alike, because the grammars are asked in order, unless one
    removes its stray markers: prose about them is quoted up to the closer of what has come.
    """
    example, ahead = found.template.example, found.template.ahead
    whole = markers.match(example + ahead)
    if whole is None:
        return ""
    is_call = found.role == CALL and not found.is_removed
    removed = [other.template for other in every if other.is_removed]
    if whole.lastgroup != found.role or (whole.end() != len(example) and not is_call):
        return whole[0]
    for end in range(1, len(example)):
        cut = markers.match(example[:end])
        if cut is None:
            return ""
        is_shared = is_call and cut.lastgroup == CALL
        if cut.lastgroup != PARTIAL and not is_shared:
            return cut[0]
        if is_shared and any(template.matches(cut[0]) for template in removed):
            return cut[0]
    return None


def _hidden_at_start(found: Found, native: NativeFormat) -> Problem | None:
    if native.starters is None or native.starters.match(found.template.example) is None:
        return None
    return Problem(
        found.path,
        f"“{found.template.text}” begins like a call without markers, which counts at the start of "
        "an answer. Change it.",
    )


def _marker_problems(text: str, role: Role, *, in_text: bool) -> Iterable[str]:
    parts = split(text)
    literal = "".join(part.text for part in parts if not part.is_placeholder)
    if any(unicodedata.category(char) in _INVISIBLE for char in text):
        yield "Remove the control characters and invisible characters."
        return
    if len(literal) < MIN_LITERAL_CHARS:
        least = f"at least {MIN_LITERAL_CHARS} characters, not counting placeholders"
        yield f"{_shown(text)} is too short: use {least}."
        return
    if len(literal) > MAX_LITERAL_CHARS:
        yield f"Use at most {MAX_LITERAL_CHARS} characters, not counting placeholders."
    yield from _ordinary_problems(text, parts, literal, in_text=in_text)
    yield from _placeholder_problems(parts, placeholders_of(text), role)


def _ordinary_problems(
    text: str, parts: Sequence[Part], literal: str, *, in_text: bool
) -> Iterable[str]:
    first = text[0]
    if text[-1].isspace() or first.isspace():
        yield f"{_shown(text)} begins or ends with a blank. Remove it."
    elif parts[0].is_placeholder:
        yield f"{_shown(text)} begins with a placeholder. Write a sign before it, like <."
    elif parts[-1] == Part("array", True):
        if not re.fullmatch(r"\w{4,32}", parts[0].text) and not _is_marked(parts[0].text):
            yield "Before {array}, write a word of at least 4 letters, or a marker."
    elif first.isalnum() or first in _ORDINARY_FIRST:
        yield f"{_shown(text)} begins like ordinary text. Begin with a sign like <, [ or |."
    elif not _is_marked(literal) or (not in_text and _HTML.match(text)):
        yield f"{_shown(text)} may stand in ordinary text. Use a sign that texts do not have."


def _is_marked(literal: str) -> bool:
    symbols = [char for char in literal if not char.isalnum() and not char.isspace()]
    return len(symbols) > 1 and len(set(literal)) > 1 and not _MARKDOWN.match(literal)


def _placeholder_problems(parts: Sequence[Part], names: Sequence[str], role: Role) -> Iterable[str]:
    may_have = {*role.needs, *role.allows}
    for name in dict.fromkeys(names):
        if name not in PLACEHOLDERS:
            known = [f"{{{each}}}" for each in sorted(PLACEHOLDERS)]
            yield f"There is no placeholder {{{name}}}{_hint(f'{{{name}}}', known)}"
        elif name in {*READ, ATTRIBUTES, TAG, "array"} and name not in may_have:
            yield f"This marker cannot have the placeholder {{{name}}}. Remove it."
        elif name in {*READ, ATTRIBUTES, "word"} and names.count(name) > 1:
            yield f"The placeholder {{{name}}} is there twice. Write it once."
        elif role.may_end_with_name and name not in may_have:
            yield f"This marker can have only {_listed(sorted(may_have))}. Remove {{{name}}}."
    for name in role.needs:
        if name not in names:
            yield f"The placeholder {{{name}}} is missing. Write it where the {name} stands."
    if not names or not set(names) <= PLACEHOLDERS:
        return
    if role.may_end_with_name and (len(parts) < 2 or parts[1].text != "name"):
        yield "The first placeholder is {name}, outside of quotes."
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        if part.is_placeholder:
            yield from _part_problems(part, following, role)


def _part_problems(part: Part, following: Part | None, role: Role) -> Iterable[str]:
    shown = "the attributes" if part.attributes else f"{{{part.text}}}"
    if part.text in ("type", "is_string"):
        yield f'Write {shown} as an attribute, like type="{shown}".'
    if part.attributes and not set(part.attributes) <= IN_ATTRIBUTES:
        yield "Attributes can have {name}, {key}, {type} and {is_string} only."
    if part.text in (TAG, "array"):
        if following is not None:
            yield f"{shown} is the end of its marker. Remove what follows it."
        return
    if following is None:
        if part.text in READ and not role.may_end_with_name:
            yield f"After {shown}, write the text that ends it, like >."
        elif part.attributes or part.text in (ATTRIBUTES, "blank", "gap", "suffix", "word"):
            yield f"After {shown}, write the text that ends the marker, like >."
        return
    if following.is_placeholder:
        before = "" if part.attributes else part.text
        if (before, following.text) not in _NEIGHBOURS and not (
            part.attributes and following.is_blank
        ):
            yield f"Write text between {shown} and {{{following.text}}}."
        return
    first = following.text[0]
    if part.attributes or part.text in READ or part.text in (ATTRIBUTES, "word", "suffix"):
        if first.isalnum() or first in "_.:/-\"' ":
            yield f"After {shown}, write a sign that no name contains, like >."


def _pattern_problem(pattern: object) -> str | None:
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN_CHARS:
        return f"A pattern is a text of at most {MAX_PATTERN_CHARS} characters."
    if not _PATTERN.fullmatch(pattern):
        return "Use letters, digits, * and the signs . : / @ + ~ - _ only."
    if not re.search(r"[^\W_]{2}", pattern):
        return f"{_shown(pattern)} matches too many models. Name at least two letters or digits."
    if pattern.count("*") > 4:
        return "Use * at most four times."
    return None


def _name_keys(markers: Iterable[object], key: str = "{key}") -> bool:
    return any(isinstance(marker, str) and key in marker for marker in markers)


def _has(markers: Mapping[Any, Any], key: str) -> bool:
    """Return whether a role has a marker, or something in its place that is refused elsewhere."""
    return bool(markers.get(key))


def _matches(pattern: str, value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _is_one_of(value: object, known: Iterable[str]) -> bool:
    return isinstance(value, str) and value in list(known)


def _hint(name: object, known: Iterable[str]) -> str:
    known = list(known)
    close = get_close_matches(str(name)[:_SHOWN_CHARS], known, 1)
    return f". Did you mean {close[0]}?" if close else f". Use one of {_listed(known)}."


def _listed(values: Iterable[object]) -> str:
    return ", ".join(
        str(value).lower() if isinstance(value, bool) else str(value) for value in values
    )


def _shown(value: object) -> str:
    if not isinstance(value, str):
        return "null" if value is None else f"of type {type(value).__name__}"
    visible = "".join(char if char.isprintable() else "�" for char in value[:_SHOWN_CHARS])
    return f"“{visible}”"


def _join(path: str, key: object) -> str:
    name = "".join(char if char.isprintable() else "�" for char in str(key)[:_SHOWN_CHARS])
    return f"{path}.{name}" if path else name
