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

from formats.native.format import NativeFormat, ReasoningMarkers, SplitThinking
from formats.native.grammar import Grammar
from formats.native.kinds import KINDS, Choice, Option, Source, Text
from formats.native.markers import Atoms
from formats.native.template import read_template

Document: TypeAlias = Mapping[str, Any]


class Problem(NamedTuple):
    path: str
    """The place in the document, like `grammars.0.markers.CALL_BEGIN`; empty for all of it."""
    message: str


class DefinitionError(ValueError):
    """A definition is refused. `problems` has all reasons, each with its place."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{path}: {message}" for path, message in problems))
        self.problems = problems


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
    problems = _Check().document(document)
    if problems or not isinstance(document, Mapping):
        raise DefinitionError(problems)
    return Definition(
        native_format(document),
        json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")),
        document.get("sample", ""),
        tuple(document.get("detect", {}).get("patterns", ())),
    )


def native_format(document: Document) -> NativeFormat:
    """Make the format of a definition that has no mistakes."""
    turn_markers = _atoms(document.get("turn_markers", ()))
    grammars: list[Grammar] = []
    at_start: list[Grammar] = []
    for each in document["grammars"]:
        kind = KINDS[each["kind"]]
        options = {name: each.get(name, _default(kind.options[name])) for name in kind.options}
        # In the order of the roles: of two markers that begin alike, the first is found.
        markers = {role: each["markers"].get(role, ()) for role in kind.roles}
        source = Source(markers, options, turn_markers)
        built = kind.build(kind.read(source), source)
        grammars += built.grammars
        at_start += built.at_start
    reasoning = document.get("reasoning", {})
    return NativeFormat(
        grammars,
        at_start=at_start,
        reasoning=ReasoningMarkers(
            _atoms(reasoning.get("begin", ())), _atoms(reasoning.get("end", ()))
        ),
        split_thinking=SplitThinking(document.get("split_thinking") or SplitThinking.NEVER),
        turn_markers=turn_markers,
        final_markers=_atoms(document.get("final_markers", ())),
    )


def _atoms(markers: Iterable[str]) -> list[Atoms]:
    return [read_template(marker, ["<|open|>", "<|close|>"]).atoms for marker in markers]


def _default(option: Option) -> object:
    match option:
        case Choice():
            return option.values[0]
        case Text():
            return ""
    return ()


class _Check:
    def __init__(self) -> None:
        self._problems: list[Problem] = []

    def document(self, document: object) -> list[Problem]:
        return self._problems
