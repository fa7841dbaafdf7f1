"""Admin of the formats that operators define.

The form has a field for each marker, and another view for the whole definition as JSON. Its other
buttons send the form without saving it: they add or remove a grammar, change the view, or try the
definition.
"""

import json
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect

from formats import BUILT_IN_DEFINITIONS, GRAMMAR_KINDS, DefinitionError, read_definition
from proxy.admin.base import ConfigurationForm, SwitchedAdmin
from proxy.admin.definition_fields import (
    KIND_LABELS,
    MAX_GRAMMARS,
    document_of,
    field_of,
    fields_of,
    sections_of,
    shows_all,
    values_of,
)
from proxy.configuration import editing
from proxy.models import FormatDefinition
from proxy.pages.access import has_permission
from proxy.pages.formats import built_in_rows
from proxy.pages.playground import columns_of
from proxy.support.definition_trial import MAX_ANSWERS, UNSAVED, leaking_models, try_on_stored
from proxy.support.playground import BadPlaygroundInput, run_playground

_JSON = "document"
_OWN_FIELDS = ("name", "note", "active")
_BUTTONS = ("_as_json", "_as_fields", "_add_grammar", "_remove_grammar", "_try")
_TRY_FIELDS = ("try_text", "try_model", "try_tools")
_MAX_TRIED_CHARS = 200_000
_BLANK = {"grammars": [{"kind": "envelope", "markers": {}}]}


@dataclass(slots=True)
class Draft:
    """A definition as the form shows it, which need not be valid."""

    document: Any
    is_json: bool = False
    text: str = ""
    """The JSON, if it is shown as such."""
    values: dict[str, Any] = field(default_factory=dict)
    """The other fields of the form."""
    problems: dict[str, list[str]] = field(default_factory=dict)
    """By field, or by the empty string for the whole form."""

    def shown(self) -> dict[str, Any]:
        if self.is_json:
            return {**self.values, _JSON: self.text or _pretty(self.document)}
        return {**self.values, **values_of(self.document)}


class DefinitionForm(ConfigurationForm):
    draft: Draft
    """Set by the admin, which makes a class of forms for each request."""

    class Meta:
        model = FormatDefinition
        fields = _OWN_FIELDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial.update(self.draft.shown())
        if "name" in self.fields and self.instance.pk:
            self.fields["name"].disabled = True
        if not self.is_bound and self.draft.problems:
            self._errors = forms.utils.ErrorDict()
            for name, problems in self.draft.problems.items():
                self._errors[name or "__all__"] = self.error_class(problems)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        try:
            document = _document_of(self.data, is_json=self.draft.is_json)
            self.instance.definition = json.loads(read_definition(document).text)
        except ValidationError as error:
            self.add_error(_JSON, error)
        except DefinitionError as error:
            for name, problems in _problems_by_field(error, self.fields).items():
                self.add_error(name or None, problems)
        return cleaned

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        try:
            editing.check_overrides(self.instance)
        except ValidationError as error:
            self._update_errors(error)  # type: ignore[attr-defined]


@admin.register(FormatDefinition)
class FormatDefinitionAdmin(SwitchedAdmin):
    list_display = ("name", "kinds", "detection", "active", "note")
    list_filter = ("active",)
    search_fields = ("name", "note")
    form = DefinitionForm
    previews = True

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        draft = self._draft(request, obj)
        if draft.is_json:
            widget = forms.Textarea(attrs={"rows": 30, "spellcheck": "false", "class": "lines"})
            extra: dict[str, Any] = {
                _JSON: forms.CharField(
                    label="definition",
                    required=False,
                    strip=False,
                    max_length=200_000,
                    widget=widget,
                    help_text="The whole definition as JSON.",
                )
            }
        else:
            extra = fields_of(draft.document)
        form = type("DefinitionForm", (DefinitionForm,), {**extra, "draft": draft})
        return super().get_form(request, obj, change, form=form, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        draft = self._draft(request, obj)
        own = {
            "description": "A native format: how a model writes tool calls into its text. Copy the "
            "built-in format that is nearest, change its markers, and try it before you save it.",
            "fields": list(_OWN_FIELDS),
        }
        if draft.is_json:
            return [(None, own), ("Definition", {"fields": [_JSON]})]
        sections = sections_of(draft.document)
        return [
            (None, own),
            *(
                (title, {"description": description, "fields": names})
                for title, description, names in sections
            ),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = {"built_in": built_in_rows(), "title": "Formats", **(extra_context or {})}
        return super().changelist_view(request, context)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id)) if object_id else None
        may_edit = (
            self.has_change_permission(request, row) if row else self.has_add_permission(request)
        )
        may_look = row is not None and self.has_view_permission(request, row)
        if row is not None and may_look and not may_edit and request.method != "POST":
            return redirect("configuration:format", name=row.name)
        context: dict[str, Any] = {
            "kinds": KIND_LABELS.items(),
            "may_read_content": has_permission(request, "view_transcript"),
            "max_answers": MAX_ANSWERS,
            **{name: request.GET.get(name, "")[:200] for name in _TRY_FIELDS},
        }
        draft = self._draft(request, row)
        if request.method == "POST" and any(name in request.POST for name in _BUTTONS):
            if not may_edit:
                raise PermissionDenied
            context |= {name: request.POST.get(name, "") for name in _TRY_FIELDS}
            if "_try" in request.POST:
                context |= self._try(request, draft)
            else:
                _press(request.POST, draft)
            request = copy(request)
            request.method = "GET"  # nothing is saved: the form is shown again
        context["models"] = leaking_models() if context["may_read_content"] else []
        context["draft"] = draft
        context["copies"] = [] if row else sorted(BUILT_IN_DEFINITIONS)
        return super().changeform_view(
            request, object_id, form_url, {**context, **(extra_context or {})}
        )

    def _draft(self, request: HttpRequest, row: FormatDefinition | None) -> Draft:
        """The definition that the form shows: as sent, of the row, or a copy."""
        draft: Draft | None = getattr(request, "definition_draft", None)
        if draft is None:
            draft = _sent(request.POST) if request.method == "POST" else _opened(request, row)
            request.definition_draft = draft  # type: ignore[attr-defined]
        return draft

    def _try(self, request: HttpRequest, draft: Draft) -> dict[str, Any]:
        """Decode the sample or the pasted text, and stored answers, with the unsaved definition."""
        try:
            definition = read_definition(_document_of(request.POST, is_json=draft.is_json))
        except ValidationError as error:
            draft.problems = {_JSON: error.messages}
            return {"is_refused": True}
        except DefinitionError as error:
            fields = {_JSON: None} if draft.is_json else fields_of(draft.document)
            draft.problems = _problems_by_field(error, fields)
            return {"is_refused": True}
        text = request.POST.get("try_text", "").replace("\r\n", "\n") or definition.sample
        result: dict[str, Any] = {"is_tried": True}
        try:
            played = run_playground(
                text[:_MAX_TRIED_CHARS],
                format_name=UNSAVED,
                definition=definition.text,
                tools=request.POST.get("try_tools", ""),
            )
            result |= {"played": played, **columns_of(text[:_MAX_TRIED_CHARS], played)}
        except BadPlaygroundInput as error:
            result["problem"] = str(error)
        model = request.POST.get("try_model", "").replace("\0", "").strip()
        if model and has_permission(request, "view_transcript"):
            result["trial"] = try_on_stored(definition, model)
        return result

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        deleted, counts, lacking, protected = super().get_deleted_objects(objs, request)
        protected = [
            *protected,
            *(f"override: {other}" for row in objs for other in editing.overrides_to(row)),
        ]
        return deleted, counts, lacking, protected

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        with editing.editing():
            for row in queryset:
                editing.delete(row)

    def dependants(self, row: FormatDefinition) -> list[Any]:
        return [*editing.overrides_to(row)]

    @admin.display(description="grammars")
    def kinds(self, row: FormatDefinition) -> str:
        if not shows_all(row.definition):  # written around the admin
            return "–"
        return ", ".join(grammar["kind"] for grammar in row.definition["grammars"])

    @admin.display(description="detects")
    def detection(self, row: FormatDefinition) -> str:
        if not shows_all(row.definition):
            return "–"
        return ", ".join(row.definition.get("detect", {}).get("patterns", [])) or "–"


def _opened(request: HttpRequest, row: FormatDefinition | None) -> Draft:
    if row is not None:
        return Draft(row.definition, is_json=not shows_all(row.definition))
    name = request.GET.get("copy", "").replace("\0", "")
    kind = request.GET.get("kind", "")
    if name in BUILT_IN_DEFINITIONS:
        document = dict(BUILT_IN_DEFINITIONS[name])
        # Models that a built-in format detects need no other, and a copy would take them over.
        document.pop("detect", None)
    elif own := FormatDefinition.objects.filter(name=name).first():
        document = {key: value for key, value in own.definition.items() if key != "detect"}
    elif kind in GRAMMAR_KINDS:
        document = {"grammars": [{"kind": kind, "markers": {}}]}
    else:
        document = _BLANK
    return Draft(json.loads(json.dumps(document)), is_json=not shows_all(document))


def _sent(data: QueryDict) -> Draft:
    values: dict[str, Any] = {name: data.get(name, "") for name in ("name", "note", "seen")}
    values["active"] = "active" in data
    if _JSON in data:
        text = str(data[_JSON])
        try:
            return Draft(_document_of(data, is_json=True), True, text, values)
        except ValidationError:
            return Draft(None, True, text, values)
    return Draft(_document_of(data, is_json=False), values=values)


def _press(data: QueryDict, draft: Draft) -> None:
    """Change the draft as the pressed button says."""
    if "_as_json" in data and not draft.is_json:
        draft.is_json, draft.text = True, _pretty(draft.document)
    elif "_as_fields" in data:
        if draft.document is not None and shows_all(draft.document):
            draft.is_json = False
        else:
            draft.problems = {
                _JSON: ["The fields cannot show all of this definition. Correct it, or save it so."]
            }
    elif draft.is_json:
        return
    elif "_remove_grammar" in data:
        grammars = draft.document["grammars"]
        numbers = [str(number) for number in range(len(grammars))]
        if data["_remove_grammar"] in numbers and len(grammars) > 1:
            del grammars[numbers.index(str(data["_remove_grammar"]))]
    elif len(draft.document["grammars"]) < MAX_GRAMMARS and data.get("new_kind") in GRAMMAR_KINDS:
        draft.document["grammars"].append({"kind": data["new_kind"], "markers": {}})


def _document_of(data: Any, *, is_json: bool) -> Any:
    if not is_json:
        return document_of(data)
    try:
        return json.loads(data.get(_JSON, ""))
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"This is not JSON: {error}.") from error


def _problems_by_field(error: DefinitionError, fields: Any) -> dict[str, list[str]]:
    problems: dict[str, list[str]] = {}
    for path, message in error.problems:
        name = _JSON if _JSON in fields else field_of(path, fields)
        text = message if (name and name != _JSON) or not path else f"{path}: {message}"
        problems.setdefault(name or "", []).append(text)
    return problems


def _pretty(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, indent=2)
