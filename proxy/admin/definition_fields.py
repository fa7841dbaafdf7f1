"""A format's definition as the fields of a form, and back.

A field's name is the place of its value in the definition, with dashes for points, so that a
problem of the definition is shown at its field. Every marker has a line of its own. Fields that are
empty or have their default are left out of the definition.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from django import forms
from django.utils.text import capfirst

from formats import GRAMMAR_KINDS, Choice, SplitThinking, Texts
from proxy.models.formats import SPLIT_THINKING

MAX_GRAMMARS = 16
_MAX_CHARS = 20_000
_NAMES = {True: "yes", False: "no"}
KIND_LABELS = {
    "tokens": "tokens around a name and JSON",
    "tags": "tags for the function and each parameter",
    "pairs": "a name, then pairs of keys and values",
    "envelope": "JSON with the name and the arguments",
    "named_object": "a name, then a JSON object",
    "objects": "a name, then an object with bare keys",
    "messages": "messages with headers and channels",
    "python_calls": "calls as Python writes them",
    "played_output": "a tool's output that the model made up, which is removed",
}
ROLE_TEXTS = {
    "ARGUMENTS_BEGIN": "Between the name and the arguments.",
    "BLOCK": "Before a call, or before several.",
    "BLOCK_END": "After the last call of a block.",
    "BODY": "Between a message's header and its text.",
    "CALLS_BEGIN": "Before the calls.",
    "CALLS_END": "After the calls.",
    "CALL_BEGIN": "Before each call.",
    "CALL_END": "After each call.",
    "CHANNEL": "Before the name of a message's channel.",
    "CONSTRAIN": "Before the type of a message's text.",
    "DELIMITER": "Around each text in the arguments.",
    "FUNCTION": "Opens a call. {name} stands for the tool's name.",
    "FUNCTION_END": "Closes a call.",
    "KEY": "Before a parameter's name.",
    "KEY_END": "After a parameter's name.",
    "MESSAGE_END": "After a message.",
    "MESSAGE_START": "Before a message.",
    "OUTPUT_BEGIN": "Before the output.",
    "OUTPUT_END": "After the output.",
    "PARAMETER": "Opens a parameter. {key} stands for its name.",
    "PARAMETER_END": "Closes a parameter.",
    "SECTION_BEGIN": "Before the first call.",
    "SECTION_END": "After the last call.",
    "VALUE": "Before a parameter's value.",
    "VALUE_END": "After a parameter's value.",
}
OPTION_TEXTS = {
    "bare": ("calls without markers", "Also read calls that begin the text without any marker."),
    "entities": ("XML entities", "Turn &lt; into < in values."),
    "header": ("how the header gives the name", ""),
    "name_suffix": ("end of the name", "Removed from the tool's name."),
    "newlines": ("line breaks around values", ""),
    "reasoning_channels": ("channels with reasoning", "One name per line."),
    "repeats_name": ("the name is repeated", "The arguments hold the name once more."),
    "separator": ("separator", "Between several calls in one block."),
    "special": (
        "markers are special tokens",
        "Nothing but a call is written with them: stray ones are removed, and a call in the "
        "reasoning counts.",
    ),
    "strings": ("texts in the arguments", ""),
    "tail": ("after the arguments", "Characters that some models add, one per line."),
}
_LINES = {
    "reasoning-begin": ("reasoning begins", "Removed from the text, with what they enclose."),
    "reasoning-end": ("reasoning ends", ""),
    "turn_markers": ("turn markers", "Removed from the text wherever they are."),
    "final_markers": ("final markers", "Removed at the end of the text only."),
    "detect-patterns": (
        "detection patterns",
        "Models with this format, by the upstream's name. * matches anything; case is ignored. "
        "An override comes first, and detection by a built-in format last.",
    ),
}
_SAMPLE = "sample"
SPLIT = "split_thinking"


class Section(NamedTuple):
    title: str
    description: str
    names: list[str]


class LinesField(forms.CharField):
    def __init__(self, **options: Any) -> None:
        rows = options.pop("rows", 2)
        widget = forms.Textarea(attrs={"rows": rows, "spellcheck": "false", "class": "lines"})
        super().__init__(
            required=False, strip=False, max_length=_MAX_CHARS, widget=widget, **options
        )


def sections_of(document: Mapping[str, Any]) -> list[Section]:
    """The fields of a definition, in the order in which a page shows them."""
    sections = []
    for number, grammar in enumerate(document["grammars"]):
        kind = GRAMMAR_KINDS.get(grammar["kind"])
        place = f"grammars-{number}-"
        names = [f"{place}kind"]
        if kind is not None:
            names += [f"{place}markers-{role}" for role in kind.roles]
            names += [f"{place}{name}" for name in kind.options]
        label = KIND_LABELS.get(grammar["kind"], "unknown")
        title = f"Grammar {number + 1}: {label}"
        text = "One spelling per line. A marker must match character by character." if kind else ""
        sections.append(Section(title, text, names))
    sections.append(
        Section("Reasoning and turns", "", [name for name in _LINES if name != "detect-patterns"])
    )
    sections[-1].names.append(SPLIT)
    sections.append(Section("Models and sample", "", ["detect-patterns", _SAMPLE]))
    return sections


def fields_of(document: Mapping[str, Any]) -> dict[str, forms.Field]:
    fields: dict[str, forms.Field] = {}
    for number, grammar in enumerate(document["grammars"]):
        place = f"grammars-{number}-"
        fields[f"{place}kind"] = forms.CharField(
            widget=forms.HiddenInput, required=False, max_length=40
        )
        kind = GRAMMAR_KINDS.get(grammar["kind"])
        if kind is None:
            continue
        for role, rules in kind.roles.items():
            need = "" if rules.is_required else " Optional."
            count = max(2, len(grammar["markers"].get(role, ())))
            fields[f"{place}markers-{role}"] = LinesField(
                label=role.replace("_", " ").lower(),
                help_text=f"{ROLE_TEXTS.get(role, '')}{need}",
                rows=1 if rules.is_single else min(count, 8),
            )
        for name, option in kind.options.items():
            label, text = OPTION_TEXTS.get(name, (name.replace("_", " "), ""))
            if isinstance(option, Choice):
                fields[f"{place}{name}"] = forms.ChoiceField(
                    label=label, help_text=text, required=False, choices=_choices(option)
                )
            elif isinstance(option, Texts):
                fields[f"{place}{name}"] = LinesField(label=label, help_text=text)
            else:
                fields[f"{place}{name}"] = forms.CharField(
                    label=label, help_text=text, required=False, max_length=40
                )
    for name, (label, text) in _LINES.items():
        fields[name] = LinesField(label=label, help_text=text)
    fields[SPLIT] = forms.ChoiceField(
        label="split off thinking",
        required=False,
        choices=[("", "only what the markers above enclose"), *SPLIT_THINKING],
    )
    fields[_SAMPLE] = LinesField(
        label="sample", rows=6, help_text="A call as the model writes it. Try reads it."
    )
    for field in fields.values():
        field.label = capfirst(field.label)
    return fields


def values_of(document: Mapping[str, Any]) -> dict[str, str]:
    """The value of each field."""
    values = {}
    for number, grammar in enumerate(document["grammars"]):
        place = f"grammars-{number}-"
        values[f"{place}kind"] = grammar["kind"]
        for role, spellings in grammar["markers"].items():
            values[f"{place}markers-{role}"] = "\n".join(spellings)
        for name in grammar.keys() - {"kind", "markers"}:
            values[f"{place}{name}"] = _text(grammar[name])
    values |= {name: _text(_at(document, name)) for name in (*_LINES, SPLIT, _SAMPLE)}
    return values


def document_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The definition that the fields say."""
    document: dict[str, Any] = {"grammars": []}
    for number in range(MAX_GRAMMARS):
        place = f"grammars-{number}-"
        if f"{place}kind" not in values:
            break
        name = str(values[f"{place}kind"])
        grammar: dict[str, Any] = {"kind": name, "markers": {}}
        document["grammars"].append(grammar)
        if (kind := GRAMMAR_KINDS.get(name)) is None:
            continue
        for role in kind.roles:
            if spellings := _lines(values.get(f"{place}markers-{role}")):
                grammar["markers"][role] = spellings
        for key, option in kind.options.items():
            value = _option(option, str(values.get(f"{place}{key}") or ""))
            if value not in ("", []) and value != _default(option):
                grammar[key] = value
    for name in _LINES:
        if lines := _lines(values.get(name)):
            outer, _, inner = name.partition("-")
            if inner:
                document.setdefault(outer, {})[inner] = lines
            else:
                document[outer] = lines
    if values.get(SPLIT):
        document[SPLIT] = str(values[SPLIT])
    if sample := str(values.get(_SAMPLE) or "").replace("\r\n", "\n"):
        document[_SAMPLE] = sample
    return document


def shows_all(document: Any) -> bool:
    """Return whether the fields can show a definition without losing anything."""
    try:
        shown = document_of(values_of(document))
        return bool(_plain(shown) == _plain(document))
    except (AttributeError, KeyError, TypeError):  # it does not have the shape of a definition
        return False


def field_of(path: str, fields: Mapping[str, Any]) -> str | None:
    """The field at a place in the definition, or the next one around it; None if there is none."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        name = "-".join(parts[:length])
        if name in fields and not name.endswith("-kind"):
            return name
        inside = [field for field in fields if field.startswith(f"{name}-markers-")]
        if parts[length - 1] == "markers" and length > 1:
            inside = [field for field in fields if field.startswith(f"{name}-")]
        if inside and length > 1:
            return inside[0]
    return None


def _choices(option: Choice) -> list[tuple[str, str]]:
    return [(_text(value), _text(value).replace("_", " ")) for value in option.values]


def _default(option: Any) -> Any:
    return option.values[0] if isinstance(option, Choice) else None


def _option(option: Any, text: str) -> Any:
    if isinstance(option, Choice):
        return next((value for value in option.values if _text(value) == text), text)
    return _lines(text) if isinstance(option, Texts) else text.strip()


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return _NAMES[value]
    if isinstance(value, SplitThinking):
        return value.value
    if isinstance(value, list | tuple):
        return "\n".join(value)
    return "" if value is None else str(value)


def _lines(value: Any) -> list[str]:
    return [line.strip() for line in str(value or "").splitlines() if line.strip()]


def _at(document: Mapping[str, Any], name: str) -> Any:
    outer, _, inner = name.partition("-")
    value = document.get(outer)
    return value.get(inner) if inner and value is not None else value


def _plain(document: Mapping[str, Any]) -> Any:
    """The definition without what is empty or a default."""
    plain = {key: value for key, value in document.items() if value not in (None, "", [], (), {})}
    plain["grammars"] = [_plain_grammar(grammar) for grammar in document["grammars"]]
    for key in ("reasoning", "detect"):
        if key in plain:
            plain[key] = {name: value for name, value in plain[key].items() if value}
            if not plain[key]:
                del plain[key]
    return json.loads(json.dumps(plain))


def _plain_grammar(grammar: Mapping[str, Any]) -> dict[str, Any]:
    kind = GRAMMAR_KINDS.get(grammar["kind"])
    options = kind.options if kind else {}
    return {
        "markers": {role: found for role, found in grammar["markers"].items() if found},
        **{
            key: value
            for key, value in grammar.items()
            if key != "markers"
            and value not in (None, "", [], ())
            and not (key in options and value == _default(options[key]))
        },
    }
