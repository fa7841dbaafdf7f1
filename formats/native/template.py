"""The language in which a definition writes markers: literal text and a few named placeholders.

    <|tool_call_begin|>             literal
    <function={name}>               the tool's name, up to the `>`
    <invoke name="{name}">          in attributes: in any order, in other quotes, beside others
    <tool{space}calls>              one of several spellings of the space between words

A placeholder is never a regular expression, and matches a limited number of characters. What
follows it cannot be part of what it matches, so reading a marker never goes back.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from formats.native.markers import Atoms, literal

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_ATTRIBUTES = re.compile(r'(?: [A-Za-z_-]{1,24}="\{[a-z_]+\}")+')
_ATTRIBUTE = re.compile(r' ([A-Za-z_-]+)="\{([a-z_]+)\}"')
_WRITTEN_ATTRIBUTE = re.compile(
    r"""\b(\w++)\s*+=\s*+(?:"([^"]*)"|'([^']*)'|([^\s"'<>]+?)(?=/?>|/?\Z|\s))"""
)
_PARTS = re.compile(rf"(?P<attributes>{_ATTRIBUTES.pattern})|{_PLACEHOLDER.pattern}")

# Patterns of placeholders for text that is not read.
_UNREAD: Mapping[str, Atoms] = {
    "blank": (r"\s{0,64}+",),
    # Some models write a line break as a backslash and an n.
    "gap": (r"(?:\s|\\(?:n|\Z)){0,64}+",),
    # Distilled models write `_`, `\_` or a space instead of ▁.
    "space": (r"(?:▁|_|[ ]|\\(?:_|\Z))",),
    "bars": ("[ ]?", "[|｜‖]{1,2}+", "[ ]?"),
    "colon": ("[ ]?", "[:：]"),
    "suffix": ("(?::[a-z0-9_]{0,32}+)?",),
    "word": ("(?!invoke|parameter)[a-z_]{1,24}+",),
    "array": (r"\s{0,8}+", r"(?=\[)"),
}
_EXAMPLES = {
    "space": "▁",
    "bars": "｜",
    "colon": ":",
    "word": "calls",
    "name": "f",
    "key": "f",
    "id": "1",
    "type": "string",
    "is_string": "true",
}
ATTRIBUTES, TAG = "attributes", "tag"
IN_ATTRIBUTES = frozenset({"name", "key", "type", "is_string"})
READ = frozenset({"id", *IN_ATTRIBUTES})
"""Placeholders for text that is read."""
PLACEHOLDERS = frozenset({ATTRIBUTES, TAG, *_UNREAD, *READ})

_NAME_CHARS = 128
_ATTRIBUTE_CHARS = 400
# A longer end is a tag of its own.
_BRACKET_CHARS = 2


class Part(NamedTuple):
    text: str
    """Literal text, or the placeholder's name."""
    is_placeholder: bool = False
    attributes: Mapping[str, str] = {}
    """Attributes that are read, by placeholder."""

    @property
    def is_blank(self) -> bool:
        return self.is_placeholder and self.text == "blank"


@dataclass(frozen=True)
class Template:
    """A marker as a definition writes it."""

    text: str
    parts: tuple[Part, ...]
    atoms: Atoms
    example: str
    """The marker with texts for its placeholders."""
    ahead: str
    """Text that has to follow the marker."""
    broken: Atoms | None
    """The marker without its attributes."""
    cut: Atoms | None
    """The beginning of the marker, if another one or the line's end cuts off what is read."""
    pattern: str
    """A regular expression for the marker, with a group for each text that is read."""
    decodes_entities: bool

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    def matches(self, text: str) -> bool:
        return self._regex.fullmatch(text) is not None

    def read(self, tag: str) -> Mapping[str, str] | None:
        """Return what a tag has for each placeholder; None if it is not this marker."""
        match = self._regex.fullmatch(tag)
        if match is None:
            return None
        texts = match.groupdict("")
        attributes = next((part.attributes for part in self.parts if part.attributes), None)
        if attributes is None:
            return texts
        written = {
            name: a or b or c for name, a, b, c in _WRITTEN_ATTRIBUTE.findall(texts[ATTRIBUTES])
        }
        found = {each: written[name] for each, name in attributes.items() if name in written}
        if self.decodes_entities:
            for each, value in found.items():
                found[each] = value.replace("&quot;", '"').replace("&amp;", "&")
        return found


def first_template(template: Template) -> Template:
    """Return the marker up to its first placeholder."""
    return read_template(template.parts[0].text)


def placeholders_of(text: str) -> list[str]:
    """Return the names of the placeholders in a marker, known and unknown ones."""
    return [match[1] for match in _PLACEHOLDER.finditer(text)]


def split(text: str) -> tuple[Part, ...]:
    """Return the parts of a marker; the attributes that are read are one part."""
    parts: list[Part] = []
    pos = 0
    for found in _PARTS.finditer(text):
        if found.start() > pos:
            parts.append(Part(text[pos : found.start()]))
        pos = found.end()
        if found[ATTRIBUTES]:
            names = {each: name for name, each in _ATTRIBUTE.findall(found[0])}
            parts.append(Part(found[0], True, names))
        else:
            parts.append(Part(found[2], True))
    if pos < len(text):
        parts.append(Part(text[pos:]))
    return tuple(parts)


def read_template(
    text: str,
    stops: Iterable[str] = (),
    *,
    followers: Collection[str] = (),
    decodes_entities: bool = False,
    is_element: bool = False,
) -> Template:
    """Read a marker that has known placeholders only.

    `stops`: texts at which attributes end, too, because another marker begins there. `followers`:
    the first characters of the markers of which one follows `tag`. `is_element`: the key is an
    element's name, which does not begin with a slash.
    """
    parts = split(text)
    stops = [parts[0].text, *stops]
    atoms: Atoms = ()
    pattern = example = ahead = ""
    broken: Atoms | None = None
    cut: Atoms | None = None
    for index, part in enumerate(parts):
        rest = parts[index + 1 :]
        end = next((each.text for each in rest if not each.is_placeholder), "")
        if not part.is_placeholder:
            atoms += literal(part.text)
            pattern += re.escape(part.text)
            example += part.text
        elif part.attributes or part.text == ATTRIBUTES:
            space, char, ahead = _attributes(text[0], end, stops)
            if part.attributes:
                inside = f"{char}{{1,{_ATTRIBUTE_CHARS}}}+"
                broken = (*atoms, f"{space}?", *_unread(rest))
                cut = (*atoms, space, f"{char}{{0,{_ATTRIBUTE_CHARS}}}+", ahead)
                atoms += (space, inside)
                pattern += f"{space}(?P<{ATTRIBUTES}>{inside})"
                example += part.text.format_map(_EXAMPLES)
            else:
                some = f"(?:{space}{char}{{0,{_ATTRIBUTE_CHARS}}}+)?"
                atoms += (some,)
                pattern += some
        elif part.text == TAG:
            ahead, *_ = followers
            initials = re.escape("".join({follower[0] for follower in followers}))
            # At the end of the text, the first character may be all that has come.
            before = rf"(?:[{initials}]\Z)?"
            atoms += (before, f"(?={'|'.join(map(re.escape, followers))})")
            pattern += before
        elif part.text in _UNREAD:
            atoms += _UNREAD[part.text]
            pattern += "".join(_UNREAD[part.text])
            example += _EXAMPLES.get(part.text, "")
            ahead = "[" if part.text == "array" else ""
        else:
            has_blanks = any(each.is_blank for each in parts[max(index - 1, 0) : index + 2])
            inside = _read(part.text, text[0], end, is_element, has_blanks)
            if part.text == "name" and rest and not rest[0].is_placeholder and not has_blanks:
                cut = (*atoms, inside, f"(?=[^{re.escape(end[0])}])")
            atoms += (inside,)
            pattern += f"(?P<{part.text}>{inside})"
            example += _EXAMPLES[part.text]
    return Template(text, parts, atoms, example, ahead, broken, cut, pattern, decodes_entities)


def _unread(parts: Iterable[Part]) -> Atoms:
    atoms: Atoms = ()
    for part in parts:
        atoms += _UNREAD[part.text] if part.is_placeholder else literal(part.text)
    return atoms


def _attributes(first: str, end: str, stops: Iterable[str]) -> tuple[str, str, str]:
    """Return patterns for attributes: the space before them, a character, and what cuts them off.

    A tag that ends with one character is on one line. If a token ends it, attributes end at the
    token, or where another marker begins.
    """
    if len(end) < _BRACKET_CHARS:
        end = end or ">"
        return "[ ]", rf"[^{re.escape(first + end)}\n]", f"(?=[^{re.escape(end)}])"
    ends = "|".join(map(re.escape, dict.fromkeys((end, *stops))))
    return r"\s", rf"(?:(?!{ends})[\s\S])", f"(?={re.escape(end[:_BRACKET_CHARS])})"


def _read(placeholder: str, first: str, end: str, is_element: bool, has_blanks: bool) -> str:
    """Return the pattern of a text that is read, up to the character that follows it."""
    if has_blanks:
        return f"[A-Za-z0-9_.-]{{0,{_NAME_CHARS}}}+"
    others = re.escape("".join(dict.fromkeys(first + end[:1])))
    # A key between two tags may have lines of its own.
    if placeholder != "key" or len(end) <= _BRACKET_CHARS:
        others += r"\n"
    if is_element:
        return rf"[^{others}/][^{others}]{{0,{_NAME_CHARS - 1}}}+"
    return rf"[^{others}]{{{int(placeholder == 'key')},{_NAME_CHARS}}}+"
