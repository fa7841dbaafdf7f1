"""Kinds of grammar that a definition can choose, with the roles of their markers and their options.

Each kind is a table, and a function that makes grammars of what the definition says. The markers
come in the order of the table, so that the first of two that begin alike is found.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from formats.native.grammar import Grammar
from formats.native.grammars.bare_objects import BareObjectsGrammar
from formats.native.grammars.json_envelope import EnvelopeGrammar
from formats.native.grammars.message_grammar import FirstMessageGrammar, MessageGrammar
from formats.native.grammars.named_object import Header, NamedObjectGrammar
from formats.native.grammars.object_grammar import ObjectGrammar
from formats.native.grammars.pair_grammar import PairGrammar
from formats.native.grammars.played_output import PlayedOutputGrammar
from formats.native.grammars.python_calls import BareCallsGrammar, PythonCallsGrammar
from formats.native.grammars.tag_grammar import CUT_FUNCTION, Function, Parameter, TagGrammar
from formats.native.grammars.token_grammar import TokenGrammar, Tokens
from formats.native.header_rules import HEADER_RULES
from formats.native.markers import Atoms, literal
from formats.native.template import Template, read_template, split


class Role(NamedTuple):
    is_required: bool = False
    needs: tuple[str, ...] = ()
    """Placeholders that each spelling has."""
    allows: tuple[str, ...] = ()
    """Other placeholders for text that is read, or for what follows, that a spelling may have."""
    is_single: bool = False
    """True if it has one spelling."""
    may_end_with_name: bool = False
    """True if a spelling may end with a text that is read, and has no other placeholders."""


class Choice(NamedTuple):
    """An option with one of a few values; the first is the default."""

    values: tuple[str | bool, ...]


class Text(NamedTuple):
    """An option that is a short text, empty by default."""

    pattern: str
    description: str


class Texts(NamedTuple):
    """An option that is a list of short texts."""

    pattern: str
    description: str


Option: TypeAlias = Choice | Text | Texts


class Source(NamedTuple):
    """What a definition says of one grammar, complete and without mistakes."""

    markers: Mapping[str, Sequence[str]]
    options: Mapping[str, Any]
    turn_markers: Sequence[Atoms]

    def templates(self, role: str, **how: Any) -> list[Template]:
        return [read_template(text, **how) for text in self.markers.get(role, ())]


Markers: TypeAlias = Mapping[str, Sequence[Template]]
"""The markers of a grammar by role, of the roles that it has."""


class Built(NamedTuple):
    grammars: Sequence[Grammar]
    at_start: Sequence[Grammar] = ()
    """Grammars whose markers count only at the start of the text."""


def _read_markers(source: Source) -> Markers:
    return {role: source.templates(role) for role in source.markers if source.markers[role]}


def _atoms(markers: Markers) -> dict[str, Sequence[Atoms]]:
    return {role: [template.atoms for template in markers[role]] for role in markers}


@dataclass(frozen=True, slots=True)
class Kind:
    roles: Mapping[str, Role]
    options: Mapping[str, Option]
    build: Callable[[Markers, Source], Built]
    needs_one_of: tuple[str, ...] = ()
    """Roles of which it needs at least one."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Roles of which it has both or neither."""
    read: Callable[[Source], Markers] = _read_markers
    """Reads the markers, in the order in which they are searched for."""


def _tokens(markers: Markers, source: Source) -> Built:
    rule = HEADER_RULES[source.options["header"]]
    is_special = source.options["special"]
    tokens = Tokens(
        _atoms(markers),
        rule.read,
        rule.read_preamble,
        repeats_name=source.options["repeats_name"],
        tail=tuple(source.options["tail"]),
    )
    return Built(
        [TokenGrammar(tokens, removes_stray_tokens=is_special, defers_in_reasoning=not is_special)]
    )


def _read_tags(source: Source) -> Markers:
    stops = [split(text)[0].text for text in chain(*source.markers.values())]
    next_tags = chain(source.markers["PARAMETER"], source.markers["FUNCTION_END"])
    how: dict[str, Any] = {
        "stops": stops,
        "followers": sorted({text[:2] for text in next_tags}),
        "decodes_entities": source.options["entities"],
        "is_element": any("{key}" in text for text in source.markers["PARAMETER_END"]),
    }
    roles = [role for role in source.markers if source.markers[role]]
    if how["is_element"]:  # elements may have the names of the other tags
        roles.sort(key=lambda role: role in ("PARAMETER", "PARAMETER_END"))
    return {role: source.templates(role, **how) for role in roles}


def _tags(markers: Markers, source: Source) -> Built:
    functions, parameters = markers["FUNCTION"], markers.get("PARAMETER", ())
    tags: dict[str, Sequence[Atoms]] = {}
    for role, spellings in _atoms(markers).items():
        tags[role] = spellings
        if role == "FUNCTION":
            tags[role] = [*spellings, *(each.broken for each in functions if each.broken)]
            if cut := [each.cut for each in functions if each.cut]:
                tags[CUT_FUNCTION] = cut
    ends = markers.get("PARAMETER_END", ())
    is_element = any("{key}" in each.text for each in ends)
    newlines = source.options["newlines"]
    grammar = TagGrammar(
        tags,
        partial(_read_function, functions),
        partial(_read_parameter, parameters),
        strips_newlines=newlines != "kept",
        inline=newlines == "beside_lines",
        elements=_elements(parameters[0], ends[0]) if is_element else None,
        removes_stray_tags=source.options["special"],
    )
    return Built([grammar])


def _read_function(templates: Iterable[Template], tag: str) -> Function:
    for template in templates:
        if (found := template.read(tag)) is not None:
            return Function(found.get("name", "").strip(), is_closed=tag.endswith("/>"))
    return Function("")


def _read_parameter(templates: Iterable[Template], tag: str) -> Parameter:
    for template in templates:
        if (found := template.read(tag)) is not None:
            is_string = found.get("is_string")
            if (kind := found.get("type")) is not None:
                return Parameter(found.get("key", ""), is_string=kind == "string")
            return Parameter(
                found.get("key", "").strip(), None if is_string is None else is_string == "true"
            )
    return Parameter("")


def _elements(begin: Template, end: Template) -> re.Pattern[str]:
    """Return a pattern for the tags of elements, with the groups `begin` and `end`."""
    return re.compile(
        f"{begin.pattern.replace('(?P<key>', '(?P<begin>')}"
        f"|{end.pattern.replace('(?P<key>', '(?P<end>')}"
    )


def _pairs(markers: Markers, source: Source) -> Built:
    key, key_end, value = (markers[role][0].text for role in ("KEY", "KEY_END", "VALUE"))
    parameter = read_template(f"{key}{{key}}{key_end}{{gap}}{value}")
    tags = _atoms(markers)
    roles = {
        "BLOCK": tags["BLOCK"],
        "PARAMETER": [parameter.atoms],
        "PARAMETER_END": tags["VALUE_END"],
        "BLOCK_END": tags["BLOCK_END"],
        "KEY": tags["KEY"],
    }
    return Built([PairGrammar(roles, partial(_read_parameter, [parameter]))])


def _envelope(markers: Markers, source: Source) -> Built:
    envelopes = EnvelopeGrammar(
        _atoms(markers),
        defers_in_reasoning=not source.options["special"],
        separator=source.options["separator"],
    )
    is_bare = source.options["bare"]
    return Built([envelopes], [BareObjectsGrammar(envelopes)] if is_bare else [])


_NAME: Atoms = (r"\s{0,32}+", r"[A-Za-z0-9_.:/-]{1,128}+", r"\s{0,32}+")
_IDENTIFIER: Atoms = ("[A-Za-z_]", r"[\w.:/-]{0,127}+")
_BEFORE_OBJECT: Atoms = (r"\s{0,32}+", r"(?=\{)")


def _named_object(markers: Markers, source: Source) -> Built:
    is_special = source.options["special"]
    templates = markers["CALL_BEGIN"]
    rests = [template.parts[2:] for template in templates]
    separators = "".join(
        dict.fromkeys(part.text[0] for rest in rests for part in rest if not part.is_placeholder)
    )
    begins: dict[str, None] = {}
    headers: list[Atoms] = []
    broken: list[Atoms] = []
    patterns: list[str] = []
    for template, rest in zip(templates, rests, strict=True):
        begins[template.parts[0].text] = None
        begin = literal(template.parts[0].text)
        inside = rf"[^{re.escape(separators)}{{}}]"
        tail: Atoms = ()
        pattern = r"\s*(?P<name>[A-Za-z0-9_.:/-]*)\s*"
        for part in rest:
            if part.is_placeholder:
                tail += (f"{inside}{{0,64}}+",)
                pattern += f"(?P<id>{inside}*)"
            else:
                tail += literal(part.text)
                pattern += re.escape(part.text) + r"\s*"
        patterns.append(pattern)
        if not is_special:
            headers.append(begin + _IDENTIFIER + tail + _BEFORE_OBJECT)
            continue
        ends_with_token = bool(rest) and not rest[-1].is_placeholder
        headers.append(begin + _NAME + tail + (() if ends_with_token else _BEFORE_OBJECT))
        if ends_with_token:
            # If an object follows, this is not prose about the tokens, but a call with a broken
            # name.
            broken.append((*begin, f"{inside}{{0,160}}+", *tail, *_BEFORE_OBJECT))
    regexes = [re.compile(pattern) for pattern in patterns]
    grammar = NamedObjectGrammar(
        {**_atoms(markers), "CALL_BEGIN": [literal(begin) for begin in begins]},
        [*headers, *broken],
        partial(_read_header, regexes),
        separators=separators,
        is_special=is_special,
    )
    return Built([grammar])


def _read_header(patterns: Iterable[re.Pattern[str]], header: str) -> Header | None:
    for pattern in patterns:
        if match := pattern.fullmatch(header):
            return Header(match["name"], match.groupdict().get("id") or "")
    return None


def _objects(markers: Markers, source: Source) -> Built:
    tokens = _atoms(markers)
    grammar = ObjectGrammar(
        begin=tokens["CALL_BEGIN"],
        end=tokens["CALL_END"],
        delimiter=tokens["DELIMITER"],
        converts_strings=source.options["strings"] == "by_schema",
    )
    return Built([grammar])


def _messages(markers: Markers, source: Source) -> Built:
    grammar = MessageGrammar(_atoms(markers), source.options["reasoning_channels"])
    return Built([grammar], [FirstMessageGrammar(grammar)])


def _python_calls(markers: Markers, source: Source) -> Built:
    tokens = _atoms(markers)
    read_name = partial(_without_suffix, source.options["name_suffix"])
    grammar = PythonCallsGrammar(tokens, read_name=read_name)
    if not source.options["bare"]:
        return Built([grammar])
    ends = [*tokens.get("CALLS_END", ()), *source.turn_markers] or tokens["CALLS_BEGIN"]
    return Built([grammar, BareCallsGrammar(ends)], [BareCallsGrammar(ends, at_start=True)])


def _without_suffix(suffix: str, name: str) -> str:
    return name.removesuffix(suffix)


def _played_output(markers: Markers, source: Source) -> Built:
    tokens = _atoms(markers)
    return Built(
        [PlayedOutputGrammar(tokens["OUTPUT_BEGIN"], tokens["OUTPUT_END"], source.turn_markers)]
    )


_OPTIONAL, _REQUIRED, _SINGLE = Role(), Role(True), Role(True, is_single=True)
_NO, _YES = Choice((False, True)), Choice((True, False))

KINDS: Mapping[str, Kind] = {
    "tokens": Kind(
        {
            "SECTION_BEGIN": _OPTIONAL,
            "CALL_BEGIN": _REQUIRED,
            "ARGUMENTS_BEGIN": _REQUIRED,
            "CALL_END": _OPTIONAL,
            "SECTION_END": _OPTIONAL,
        },
        {
            "header": Choice(tuple(HEADER_RULES)),
            "special": _YES,
            "repeats_name": _NO,
            "tail": Texts(r"[^\w\s]", "one character that is not a letter, digit or blank"),
        },
        _tokens,
        needs_one_of=("CALL_END", "SECTION_END"),
    ),
    "tags": Kind(
        {
            "BLOCK": _OPTIONAL,
            "FUNCTION": Role(True, needs=("name",), allows=("tag",)),
            "PARAMETER": Role(needs=("key",), allows=("type", "is_string")),
            "PARAMETER_END": Role(allows=("key",)),
            "FUNCTION_END": _REQUIRED,
            "BLOCK_END": _OPTIONAL,
        },
        {
            "newlines": Choice(("kept", "removed", "beside_lines")),
            "entities": _NO,
            "special": _NO,
        },
        _tags,
        pairs=(("PARAMETER", "PARAMETER_END"), ("BLOCK", "BLOCK_END")),
        read=_read_tags,
    ),
    "pairs": Kind(
        {
            "BLOCK": _REQUIRED,
            "KEY": _SINGLE,
            "KEY_END": _SINGLE,
            "VALUE": _SINGLE,
            "VALUE_END": _REQUIRED,
            "BLOCK_END": _REQUIRED,
        },
        {},
        _pairs,
    ),
    "envelope": Kind(
        {"BLOCK": Role(True, allows=("array",)), "BLOCK_END": _OPTIONAL},
        {
            "separator": Text("[;|&+]", "one of ; | & +"),
            "special": _NO,
            "bare": _NO,
        },
        _envelope,
    ),
    "named_object": Kind(
        {
            "CALL_BEGIN": Role(True, needs=("name",), allows=("id",), may_end_with_name=True),
            "CALL_END": _OPTIONAL,
        },
        {"special": _YES},
        _named_object,
    ),
    "objects": Kind(
        {"CALL_BEGIN": _REQUIRED, "CALL_END": _REQUIRED, "DELIMITER": _REQUIRED},
        {"strings": Choice(("as_written", "by_schema"))},
        _objects,
    ),
    "messages": Kind(
        {
            "MESSAGE_START": _REQUIRED,
            "CHANNEL": _REQUIRED,
            "CONSTRAIN": _OPTIONAL,
            "BODY": _REQUIRED,
            "MESSAGE_END": _REQUIRED,
        },
        {"reasoning_channels": Texts(r"\w{1,32}", "a word")},
        _messages,
    ),
    "python_calls": Kind(
        {"CALLS_BEGIN": _REQUIRED, "CALLS_END": _OPTIONAL},
        {"bare": _NO, "name_suffix": Text(r"\.\w{1,15}", "a point and a word, like `.call`")},
        _python_calls,
    ),
    "played_output": Kind({"OUTPUT_BEGIN": _REQUIRED, "OUTPUT_END": _REQUIRED}, {}, _played_output),
}
