"""Native formats as data: a JSON document that says what a format's markers are and what they mean.

    {
      "grammars": [
        {"kind": "tags", "markers": {"FUNCTION": ["<do={name}>"], …}, "newlines": "removed"}
      ],
      "reasoning": {"begin": ["<muse>"], "end": ["</muse>"]},
      "turn_markers": ["<|over|>"], "final_markers": [], "split_thinking": "marked",
      "detect": {"patterns": ["acme/*"]},
      "sample": "<do=get_tide>…"
    }

`kinds` lists the kinds of grammar, with the roles of their markers and their options; `template` is
the language of the markers. Only `grammars` is required. A definition that is accepted has a
bounded number of short markers, each of which can be found, however the text is split.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias

from formats.native.definition_check import DocumentCheck, Found, Problem, overlaps
from formats.native.format import (
    FINAL_MARKER,
    REASONING_BEGIN,
    REASONING_END,
    TURN_MARKER,
    NativeFormat,
    ReasoningMarkers,
    SplitThinking,
)
from formats.native.grammar import Grammar
from formats.native.kinds import KINDS, Built, Choice, Markers, Option, Source, Text
from formats.native.template import Template, first_template, read_template

Document: TypeAlias = Mapping[str, Any]


class DefinitionError(ValueError):
    """A definition is refused. `problems` has all reasons, each with its place."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{path}: {message}" for path, message in problems))
        self.problems = list(problems)


@dataclass(frozen=True, slots=True)
class Definition:
    native: NativeFormat
    text: str
    """The document as JSON; equal documents have the same text."""
    sample: str
    """What a model of this format writes."""
    patterns: tuple[str, ...]
    """Patterns of the models that have this format."""

    def detects(self, model: str) -> bool:
        """Return whether a model has this format; `*` matches anything, and case is ignored."""
        return any(fnmatchcase(model.lower(), pattern.lower()) for pattern in self.patterns)


def read_definition(document: object) -> Definition:
    """Read a definition; raises DefinitionError with all problems."""
    check = DocumentCheck()
    check.check(document)
    if check.problems or not isinstance(document, dict):
        raise DefinitionError(check.problems)
    built = _build(document)
    if problems := overlaps(built.native, built.groups, built.own):
        raise DefinitionError(problems)
    return Definition(
        built.native,
        json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")),
        document.get("sample", ""),
        tuple(document.get("detect", {}).get("patterns", ())),
    )


def native_formats(documents: Mapping[str, Document]) -> dict[str, NativeFormat]:
    """Make the formats of definitions that are known to be right.

    A grammar that is one object in several of them is made once.
    """
    made: dict[int, Built] = {}
    return {name: _build(document, made).native for name, document in documents.items()}


class _Built(NamedTuple):
    native: NativeFormat
    groups: Sequence[Sequence[Found]]
    """The markers of each grammar."""
    own: Sequence[Found]
    """The markers of the format itself."""


def _build(document: Document, made: dict[int, Built] | None = None) -> _Built:
    reasoning = document.get("reasoning", {})
    own = {
        (REASONING_BEGIN, "reasoning.begin"): _templates(reasoning.get("begin", ())),
        (REASONING_END, "reasoning.end"): _templates(reasoning.get("end", ())),
        (TURN_MARKER, "turn_markers"): _templates(document.get("turn_markers", ())),
        (FINAL_MARKER, "final_markers"): _templates(document.get("final_markers", ())),
    }
    begin, end, turn_markers, final_markers = (
        [template.atoms for template in templates] for templates in own.values()
    )
    grammars: list[Grammar] = []
    at_start: list[Grammar] = []
    groups: list[list[Found]] = []
    for index, each in enumerate(document["grammars"]):
        kind = KINDS[each["kind"]]
        options = {name: each.get(name, _default(kind.options[name])) for name in kind.options}
        source = Source(
            {role: each["markers"].get(role, ()) for role in kind.roles}, options, turn_markers
        )
        markers = kind.read(source)
        built = (made or {}).get(id(each)) or kind.build(markers, source)
        if made is not None:
            made[id(each)] = built
        grammars += built.grammars
        at_start += built.at_start
        groups.append(_found(f"grammars.{index}.markers", markers, built.grammars[0]))
    native = NativeFormat(
        grammars,
        at_start=at_start,
        reasoning=ReasoningMarkers(begin, end),
        split_thinking=SplitThinking(document.get("split_thinking") or SplitThinking.NEVER),
        turn_markers=turn_markers,
        final_markers=final_markers,
    )
    found = [
        Found(_place(path, index, templates), role, template)
        for (role, path), templates in own.items()
        for index, template in enumerate(templates)
    ]
    return _Built(native, groups, found)


def _templates(markers: Iterable[str]) -> list[Template]:
    return [read_template(marker) for marker in markers]


def _found(path: str, markers: Markers, grammar: Grammar) -> list[Found]:
    searched = {atoms for spellings in grammar.spellings.values() for atoms in spellings}
    found: list[Found] = []
    for role, templates in markers.items():
        for index, template in enumerate(templates):
            place = _place(f"{path}.{role}", index, templates)
            if template.atoms not in searched and first_template(template).atoms in searched:
                template = first_template(template)  # a grammar that searches for its beginning
                if any(each.template.text == template.text for each in found):
                    continue
            found.append(
                Found(
                    place,
                    role,
                    template,
                    is_searched=template.atoms in searched,
                    is_removed=bool(grammar.closers),
                )
            )
    return found


def _place(path: str, index: int, markers: Sequence[object]) -> str:
    return path if len(markers) == 1 else f"{path}.{index}"


def _default(option: Option) -> object:
    match option:
        case Choice():
            return option.values[0]
        case Text():
            return ""
    return ()
