"""Page of one format: its definition, read-only, in the form in which operators define formats."""

import json
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse

from formats import BUILT_IN_DEFINITIONS, DefinitionError, read_definition
from proxy.models import FormatDefinition
from proxy.pages.access import has_permission, render_page, staff_page

_EMPTY: dict[str, Any] = {"grammars": []}
_OTHER_KEYS = {
    "turn_markers": "turn markers",
    "final_markers": "final markers",
    "split_thinking": "split off thinking",
}


@staff_page("view_formatdefinition")
def format_page(request: HttpRequest, name: str) -> HttpResponse:
    row = FormatDefinition.objects.filter(name=name).first()
    if row is None and name not in BUILT_IN_DEFINITIONS:
        raise Http404
    document, problem = BUILT_IN_DEFINITIONS.get(name, _EMPTY), ""
    if row is not None:
        try:
            document = json.loads(read_definition(row.definition).text)
        except DefinitionError as error:  # written around the admin
            problem = str(error)
    return render_page(
        request,
        "configuration/format.html",
        f"Format {name}",
        name=name,
        row=row,
        problem=problem,
        grammars=[_grammar(grammar) for grammar in document["grammars"]],
        others=_others(document),
        sample=document.get("sample", ""),
        may_copy=has_permission(request, "add_formatdefinition"),
        may_edit=row is not None and has_permission(request, "change_formatdefinition"),
    )


def built_in_rows() -> list[dict[str, Any]]:
    """The built-in formats, as the list of formats shows them."""
    return [
        {
            "name": name,
            "kinds": ", ".join(dict.fromkeys(each["kind"] for each in document["grammars"])),
            "sample": document.get("sample", "").strip(),
        }
        for name, document in sorted(BUILT_IN_DEFINITIONS.items())
    ]


def _grammar(grammar: Any) -> dict[str, Any]:
    options = grammar.keys() - {"kind", "markers"}
    return {
        "kind": grammar["kind"],
        "markers": [
            (role.replace("_", " ").lower(), spellings)
            for role, spellings in grammar["markers"].items()
        ],
        "options": [(name.replace("_", " "), _text(grammar[name])) for name in sorted(options)],
    }


def _others(document: Any) -> list[tuple[str, list[str]]]:
    found = [(label, document.get(key)) for key, label in _OTHER_KEYS.items()]
    found += [
        (f"reasoning {key}s", document.get("reasoning", {}).get(key)) for key in ("begin", "end")
    ]
    found.append(("detection patterns", document.get("detect", {}).get("patterns")))
    return [
        (label, [value] if isinstance(value, str) else list(value))
        for label, value in found
        if value
    ]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else " ".join(value)
