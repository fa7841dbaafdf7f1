"""Base classes of the configuration's admin pages.

A form warns before it overwrites a change that was made after the form was opened. Pages preview
the effect of a change and can revert a row to an earlier version. All changes are made through
`proxy.configuration.editing`.
"""

from contextlib import suppress
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import ForeignKey, Model, ProtectedError
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from proxy.admin.range_hints import range_hint
from proxy.configuration import editing
from proxy.configuration.history import differences, records, version_of
from proxy.configuration.preview import effects_of
from proxy.database.clock import clock
from proxy.pages.changes import entries_of, with_undo_link


class ConfigurationForm(forms.ModelForm):
    seen = forms.IntegerField(required=False, widget=forms.HiddenInput)
    """The version of the row when the form was opened."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["seen"] = version_of(self.instance)

    def clean(self) -> dict[str, Any]:
        # Lock before any lookup: otherwise a row could appear between the check and the save.
        editing.lock()
        cleaned = super().clean() or {}
        seen = cleaned.get("seen")
        if self.instance.pk and seen is not None:
            try:
                editing.check_version(self.instance, {seen})
            except editing.EditConflict as conflict:
                raise self._warning(seen, conflict) from conflict
        return cleaned

    def _warning(self, seen: int, conflict: editing.EditConflict) -> ValidationError:
        # Sending the same form once more confirms it.
        assert isinstance(self.data, QueryDict)  # noqa: S101  a submitted form
        self.data = self.data.copy()
        self.data[self.add_prefix("seen")] = str(conflict.version)
        last = conflict.last_change
        if last is None:
            return ValidationError("The history of this row is gone. Save again to overwrite it.")
        opened = records(self.instance).filter(version=seen).first()
        changes = "; ".join(
            f"{change.label} from {change.old} to {change.new}"
            for change in differences(opened, last)
        )
        return ValidationError(
            f"{last.history_user or 'A command'} changed this at {last.history_date:%H:%M:%S} UTC, "
            f"while you were editing it: {changes or 'no visible field'}. Save again to overwrite "
            "that with the values on this page."
        )


class ConfigurationAdmin(admin.ModelAdmin):
    form = ConfigurationForm
    previews = False
    """Set for tables that affect routing: the form then shows which models a change affects."""

    class Media:
        js = ("athena/forms.js",)

    def get_urls(self) -> list[URLPattern]:
        name = f"proxy_{self.opts.model_name}_revert"
        revert = path(
            "<path:object_id>/history/<int:version>/revert/",
            self.admin_site.admin_view(self.revert_view),
            name=name,
        )
        return [revert, *super().get_urls()]

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if isinstance(db_field, ForeignKey) and field is not None:
            # No red cross beside a choice: it would delete the chosen row itself.
            field.widget.can_delete_related = False
        if isinstance(field, forms.IntegerField) and (hint := range_hint(db_field)):
            field.help_text = f"{field.help_text} {hint}".strip()
        return field

    def dependants(self, row: Any) -> list[Model]:
        """The rows that refer to this one."""
        return []

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if "_saveasnew" in request.POST:  # no page offers this
            raise Http404
        row = self.get_object(request, unquote(object_id)) if object_id else None
        if request.method == "POST" and "_preview" in request.POST:
            return self._preview(request, object_id, row)
        context = {
            "previews": self.previews,
            "dependants": [(other, _change_url(other)) for other in self.dependants(row)]
            if row
            else [],
            **(extra_context or {}),
        }
        return super().changeform_view(request, object_id, form_url, context)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        context: dict[str, Any] = {"effects": [], **(extra_context or {})}
        if row is not None and self.previews and self.has_delete_permission(request, row):
            with suppress(ProtectedError):  # the page lists the rows that refer to it
                context["effects"] = effects_of(lambda: _delete(type(row), row.pk), clock.now())
        return super().delete_view(request, object_id, context)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        deleted, counts, lacking, protected = super().get_deleted_objects(objs, request)
        # Protected rows are not deleted, so no permission to delete them is needed.
        return deleted, counts, set() if protected else lacking, protected

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404
        if not self.has_view_or_change_permission(request, row):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "title": f"History of {row}",
            "object": row,
            "opts": self.opts,
            "module_name": str(self.opts.verbose_name_plural).capitalize(),
            "entries": entries_of(records(row)),
            "present": version_of(row),
            "may_revert": self.has_change_permission(request, row),
            **(extra_context or {}),
        }
        return render(request, "admin/proxy/object_history.html", context)

    @method_decorator(require_POST)
    def revert_view(self, request: HttpRequest, object_id: str, version: int) -> HttpResponse:
        """Revert the row to an earlier version; a deleted row is created again."""
        key = unquote(object_id)
        row = self.get_object(request, key)
        may = self.has_change_permission(request, row) and (row or self.has_add_permission(request))
        if not may:
            raise PermissionDenied
        try:
            with editing.editing():
                is_number = key.isascii() and key.isdigit()
                found = records(self.model).filter(version=version)
                record = found.filter(id=key).first() if is_number else None
                if record is None:
                    raise Http404
                restored = editing.revert(record)
                self.log_change(request, restored, f"Back to version {version}.")
        except ValidationError as error:
            messages.error(request, f"This version cannot be restored: {' '.join(error.messages)}")
            return redirect("configuration:changes")
        messages.success(request, f"“{restored}” was restored to version {version}.")
        return redirect(reverse(f"admin:proxy_{self.opts.model_name}_history", args=[restored.pk]))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        editing.store(obj)  # the form has validated it

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        editing.delete(obj)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        with editing.editing():
            super().delete_queryset(request, queryset)

    def _preview(self, request: HttpRequest, object_id: str | None, row: Any) -> HttpResponse:
        """Render which models saving the form would affect, as part of a page."""
        if not self.previews or (object_id and row is None):
            raise Http404
        is_change = row is not None
        may = self.has_change_permission(request, row) if is_change else None
        if not (self.has_add_permission(request) if may is None else may):
            raise PermissionDenied
        form = self.get_form(request, row, change=is_change)(request.POST, instance=row)

        def save() -> None:
            if not form.is_valid():
                raise ValidationError("The form has errors.")
            saved = self.save_form(request, form, change=is_change)
            self.save_model(request, saved, form, change=is_change)

        try:
            effects = effects_of(save, clock.now())
        except ValidationError:
            wrong = [form.fields[name].label for name in form.errors if name in form.fields]
            context: dict[str, Any] = {"is_invalid": True, "wrong": wrong}
            return render(request, "configuration/_effects.html", context)
        return render(request, "configuration/_effects.html", {"effects": effects})


class SwitchedAdmin(ConfigurationAdmin):
    """Admin of rows that can be disabled instead of deleted."""

    actions = ("enable", "disable")

    @admin.action(description="Enable the selected rows", permissions=["change"])
    def enable(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        return self._ask_and_switch(request, queryset, active=True)

    @admin.action(description="Disable the selected rows", permissions=["change"])
    def disable(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        return self._ask_and_switch(request, queryset, active=False)

    def _ask_and_switch(
        self, request: HttpRequest, rows: Any, *, active: bool
    ) -> HttpResponse | None:
        """Show which models it affects; switch the rows once the user has confirmed."""
        chosen, word = list(rows.exclude(active=active)), "enable" if active else "disable"
        if not chosen:
            messages.info(request, f"Nothing to {word}: the selected rows are already {word}d.")
            return None

        def switch() -> None:
            # Read again under the lock. Saved one by one: a bulk update would leave no record.
            for row in rows.exclude(active=active):
                row.active = active
                editing.save(row)
                self.log_change(request, row, f"{word.capitalize()}d.")

        try:
            if "confirmed" in request.POST:
                with editing.editing():
                    switch()
                done = f"{len(chosen)} {_noun(self.opts, len(chosen))} {word}d."
                messages.success(request, with_undo_link(done))
                return None
            effects = effects_of(switch, clock.now())
        except ValidationError as error:
            messages.error(request, f"The rows cannot be {word}d: {' '.join(error.messages)}")
            return None
        context = {
            **self.admin_site.each_context(request),
            "title": f"{word.capitalize()} {len(chosen)} {_noun(self.opts, len(chosen))}?",
            "opts": self.opts,
            "rows": chosen,
            "action": word,
            "effects": effects,
        }
        return render(request, "configuration/enable_disable.html", context)


class EnvironmentAdmin(SwitchedAdmin):
    """Admin of tables whose rows may follow environment variables, until an operator edits them."""

    @admin.display(description="set by")
    def origin(self, row: Any) -> str:
        return "environment" if row.from_environment else "operator"


def _noun(opts: Any, count: int) -> str:
    return str(opts.verbose_name if count == 1 else opts.verbose_name_plural)


def _delete(model: type[Model], key: Any) -> None:
    editing.delete(model._default_manager.get(pk=key))


def _change_url(row: Model) -> str:
    return reverse(f"admin:proxy_{row._meta.model_name}_change", args=[row.pk])
