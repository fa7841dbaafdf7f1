"""Export and import page: the whole configuration as one YAML document.

An import is confirmed in two steps. The first shows the differences; the second posts the same
text again with the configuration version that the differences were computed for. If the
configuration has changed since, the differences are shown again and nothing is imported. Uploaded
documents are not stored.
"""

from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse

from proxy.configuration.document.export import current_version, export
from proxy.configuration.document.import_document import (
    VersionChanged,
    preview_import,
    run_import,
)
from proxy.configuration.document.problems import InvalidDocument
from proxy.configuration.document.schema import GATEWAY, TABLES
from proxy.configuration.document.yaml_nodes import MAX_BYTES
from proxy.database.clock import clock
from proxy.pages.access import render_page, staff_page

# The permissions to make every change by hand that an import can make: client keys are added and
# changed but never deleted.
_PERMISSIONS = (
    *(
        f"{verb}_{name}"
        for name in ("upstream", "modelroute", "formatoverride", "formatdefinition")
        for verb in ("add", "change", "delete")
    ),
    "add_clientkey",
    "change_clientkey",
    "change_formatsettings",
    "change_gatewaysettings",
)


class DocumentForm(forms.Form):
    text = forms.CharField(
        label="paste a document",
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 18, "spellcheck": "false", "wrap": "off"}),
    )
    file = forms.FileField(label="or upload a file", required=False, allow_empty_file=True)

    def clean_file(self) -> str:
        file: UploadedFile[Any] | None = self.cleaned_data["file"]
        if file is None:
            return ""
        if file.size is None or file.size > MAX_BYTES:
            raise forms.ValidationError(f"The file is larger than {MAX_BYTES:,} bytes.")
        try:
            return str(file.read(), "utf-8")
        except UnicodeDecodeError:
            raise forms.ValidationError("The file is not UTF-8 text.") from None

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("file") and cleaned.get("text", "").strip():
            self.add_error(None, "Paste a document or upload a file, not both.")
        cleaned["text"] = cleaned.get("file") or cleaned.get("text", "")
        if not cleaned["text"].strip() and not self.errors:
            self.add_error(None, "Paste a document or upload a file.")
        return cleaned


class ImportForm(forms.Form):
    """Carries the previewed document to the confirmation step."""

    text = forms.CharField(strip=False, widget=forms.HiddenInput)
    version = forms.IntegerField(widget=forms.HiddenInput)


@staff_page(*_PERMISSIONS)
def configuration_page(request: HttpRequest) -> HttpResponse:
    return _render(request, DocumentForm())


@staff_page(*_PERMISSIONS)
def export_document(request: HttpRequest) -> HttpResponse:
    text, version = export()
    return HttpResponse(
        text,
        content_type="application/yaml; charset=utf-8",
        headers={"content-disposition": f'attachment; filename="athena-{version}.yaml"'},
    )


@staff_page(*_PERMISSIONS, methods=("POST",))
def show_differences(request: HttpRequest) -> HttpResponse:
    form = DocumentForm(request.POST, request.FILES)
    if not form.is_valid():
        return _render(request, form)
    return _show_differences(request, form.cleaned_data["text"])


@staff_page(*_PERMISSIONS, methods=("POST",))
def import_document(request: HttpRequest) -> HttpResponse:
    form = ImportForm(request.POST)
    if not form.is_valid():
        return _render(request, DocumentForm())
    text, version = form.cleaned_data["text"], form.cleaned_data["version"]
    try:
        report = run_import(text, now=clock.now(), reason="import", version=version)
    except VersionChanged:
        return _show_differences(request, text, is_outdated=True)
    except InvalidDocument as error:
        return _render(request, _form_with(text), invalid=error)
    return _render(request, DocumentForm(), report=report, is_done=True)


def _show_differences(
    request: HttpRequest, text: str, *, is_outdated: bool = False
) -> HttpResponse:
    try:
        report = preview_import(text, now=clock.now())
    except InvalidDocument as error:
        return _render(request, _form_with(text), invalid=error)
    confirm = ImportForm(initial={"text": text, "version": report.version}, auto_id=False)
    return _render(
        request, _form_with(text), report=report, confirm=confirm, is_outdated=is_outdated
    )


def _form_with(text: str) -> DocumentForm:
    return DocumentForm(initial={"text": text})


def _render(request: HttpRequest, form: DocumentForm, **context: Any) -> HttpResponse:
    counts = [
        (table.model._meta.verbose_name_plural, table.model._default_manager.count())
        for table in TABLES
        if table is not GATEWAY
    ]
    return render_page(
        request,
        "configuration/import_export.html",
        "Export and import",
        form=form,
        version=current_version(),
        counts=counts,
        **context,
    )
