"""What the pages of all configuration have in common.

A row that somebody else changed meanwhile is not overwritten unawares. What a change would do is
shown before it is made, and what was done can be taken back. A row that came from the environment
becomes the operator's when it is saved.
"""

from contextlib import suppress
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import ForeignKey, Model, ProtectedError
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from proxy.admin.bounds import bounds_of
from proxy.configuration.history import differences, newest, records, revert, version_of
from proxy.configuration.preview import effects_of
from proxy.database.clock import clock
from proxy.models import ConfigurationVersion, ModelRoute
from proxy.models.gateway import check_default
from proxy.pages.changes import entries_of


class ConfigurationForm(forms.ModelForm):
    seen = forms.IntegerField(required=False, widget=forms.HiddenInput)
    """The version of the row that the page was made of."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["seen"] = version_of(self.instance)

    def clean(self) -> dict[str, Any]:
        # Before anything is looked up: what is not there yet could come while it is checked.
        ConfigurationVersion.lock()
        cleaned = super().clean() or {}
        seen = cleaned.get("seen")
        if self.instance.pk and seen is not None:
            self._check_unchanged(seen)
        return cleaned

    def _check_unchanged(self, seen: int) -> None:
        last = newest(self.instance)
        if last is None or last.version == seen:
            return
        known = records(self.instance).filter(version=seen).first()
        changed = "; ".join(
            f"{change.label} from {change.old} to {change.new}"
            for change in differences(known, last)
        )
        # The same form, sent once more, is the confirmation.
        assert isinstance(self.data, QueryDict)  # noqa: S101  what a browser sent
        self.data = self.data.copy()
        self.data[self.add_prefix("seen")] = str(last.version)
        who = last.history_user or "A command"
        raise ValidationError(
            f"{who} changed this at {last.history_date:%H:%M:%S} UTC, while you were editing it: "
            f"{changed or 'nothing that is shown'}. Save again to make it as it is on this page."
        )


class ConfigurationAdmin(admin.ModelAdmin):
    form = ConfigurationForm
    previews = False
    """Whether a change may treat models differently, which is then shown beside the form."""

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
            # No red cross beside a choice: it would delete the row itself.
            field.widget.can_delete_related = False
        if isinstance(field, forms.IntegerField) and (bounds := bounds_of(db_field)):
            field.help_text = f"{field.help_text} {bounds}".strip()
        return field

    def dependants(self, row: Any) -> list[Model]:
        """The rows that need this one."""
        return []

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if "_saveasnew" in request.POST:  # no page offers it
            raise Http404
        row = self.get_object(request, unquote(object_id)) if object_id else None
        if request.method == "POST" and "_preview" in request.POST:
            return self._preview(request, object_id, row)
        context = {
            "previews": self.previews,
            "dependants": [(found, _change_url(found)) for found in self.dependants(row)]
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
            with suppress(ProtectedError):  # the page says which rows need it
                context["effects"] = effects_of(lambda: _delete(type(row), row.pk), clock.now())
        return super().delete_view(request, object_id, context)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        deleted, counts, lacking, protected = super().get_deleted_objects(objs, request)
        # What protects a row is not deleted with it: no permission is lacking for that.
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
        """Make the row what it was at a version; one that was deleted is made again."""
        key = unquote(object_id)
        row = self.get_object(request, key)
        may = self.has_change_permission(request, row) and (row or self.has_add_permission(request))
        if not may:
            raise PermissionDenied
        try:
            with transaction.atomic():
                ConfigurationVersion.lock()
                is_number = key.isascii() and key.isdigit()
                found = records(self.model).filter(version=version)
                record = found.filter(id=key).first() if is_number else None
                if record is None:
                    raise Http404
                restored = revert(record)
                self.log_change(request, restored, f"Back to version {version}.")
        except ValidationError as error:
            messages.error(request, f"It cannot be as it was: {' '.join(error.messages)}")
            return redirect("configuration:changes")
        messages.success(request, f"“{restored}” is as it was at version {version}.")
        return redirect(reverse(f"admin:proxy_{self.opts.model_name}_history", args=[restored.pk]))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        ConfigurationVersion.lock()
        super().save_model(request, obj, form, change)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        ConfigurationVersion.lock()
        super().delete_model(request, obj)

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        ConfigurationVersion.lock()
        super().delete_queryset(request, queryset)

    def _preview(self, request: HttpRequest, object_id: str | None, row: Any) -> HttpResponse:
        """What saving the form would do, as a part of a page."""
        if not self.previews or (object_id and row is None):
            raise Http404
        is_change = row is not None
        may = self.has_change_permission(request, row) if is_change else None
        if not (self.has_add_permission(request) if may is None else may):
            raise PermissionDenied
        form = self.get_form(request, row, change=is_change)(request.POST, instance=row)

        def save() -> None:
            if not form.is_valid():
                raise ValidationError("It cannot be saved as it is.")
            made = self.save_form(request, form, change=is_change)
            self.save_model(request, made, form, change=is_change)

        try:
            found = effects_of(save, clock.now())
        except ValidationError:
            wrong = [form.fields[name].label for name in form.errors if name in form.fields]
            context: dict[str, Any] = {"is_invalid": True, "wrong": wrong}
            return render(request, "configuration/_effects.html", context)
        return render(request, "configuration/_effects.html", {"effects": found})


class SwitchedAdmin(ConfigurationAdmin):
    """A page for rows that can be switched off, which is better than deleting them."""

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
        """Show what it would do; do it when that was seen."""
        chosen, word = list(rows.exclude(active=active)), "enable" if active else "disable"
        if not chosen:
            messages.info(request, f"Nothing to {word}: the selected rows are so already.")
            return None

        def switch() -> None:
            ConfigurationVersion.lock()  # before they are read: all of a row is saved
            for row in rows.exclude(active=active):  # each as it is in this transaction
                row.active = active
                row.full_clean()
                if isinstance(row, ModelRoute):
                    check_default(row)
                # One by one: an update in bulk would leave no record, and be no version.
                self.save_model(request, row, form=None, change=True)
                self.log_change(request, row, f"{word.capitalize()}d.")

        try:
            if "confirmed" in request.POST:
                with transaction.atomic():
                    switch()
                said = f"{len(chosen)} {_noun(self.opts, len(chosen))} {word}d."
                messages.success(request, f"{said} Changes has the way back.")
                return None
            effects = effects_of(switch, clock.now())
        except ValidationError as error:
            messages.error(request, f"They cannot be {word}d: {' '.join(error.messages)}")
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


class OwnedAdmin(SwitchedAdmin):
    """A page for rows that may have come from the environment."""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.from_environment = False
        super().save_model(request, obj, form, change)

    @admin.display(description="set by")
    def origin(self, row: Any) -> str:
        return "environment" if row.from_environment else "operator"


def _noun(opts: Any, count: int) -> str:
    return str(opts.verbose_name if count == 1 else opts.verbose_name_plural)


def _delete(model: type[Model], key: Any) -> None:
    model._default_manager.get(pk=key).delete()


def _change_url(row: Model) -> str:
    return reverse(f"admin:proxy_{row._meta.model_name}_change", args=[row.pk])
