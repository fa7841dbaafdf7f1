"""Admin of client keys. A key is shown once, at its creation, and revoked, never deleted."""

import re
import secrets
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from proxy.admin.base import ConfigurationAdmin, ConfigurationForm
from proxy.configuration import client_keys
from proxy.configuration.editing import editing
from proxy.database.clock import clock
from proxy.models import ClientKey, KeyState
from proxy.models.keys import new_key
from proxy.pages.client_keys import show_key

_CREATED = "made_keys"
_MAX_CREATED = 20
"""The number of sent forms that a session remembers."""


class PatternsField(forms.CharField):
    """A list of patterns, one per line."""

    widget = forms.Textarea(attrs={"rows": 3, "class": "vLargeTextField", "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, value)) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return [part for part in re.split(r"[\s,]+", str(value or "")) if part]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool((initial or []) != self.to_python(data))


class ClientKeyForm(ConfigurationForm):
    allowed_models = PatternsField(
        required=False,
        help_text="Patterns of the allowed model names, one per line. Empty allows all.",
    )
    making = forms.CharField(required=False, widget=forms.HiddenInput)
    """A random id of the form, so that the same form sent twice creates one key."""

    class Meta:
        model = ClientKey
        fields = "__all__"
        help_texts = {
            "owner": "The user who can see its requests on their Usage page. May stay empty."
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["making"] = secrets.token_urlsafe(12)

    def clean_expires_at(self) -> Any:
        moment = self.cleaned_data["expires_at"]
        if "expires_at" in self.changed_data and moment and moment <= clock.now():
            raise forms.ValidationError(
                "This time is in the past. To end a key immediately, revoke it."
            )
        return moment


class StateFilter(admin.SimpleListFilter):
    title = parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state.value, state.label) for state in KeyState]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        has_expired = Q(expires_at__lte=clock.now())
        chosen = {
            KeyState.ACTIVE: Q(revoked_at=None) & ~has_expired,
            KeyState.EXPIRED: Q(revoked_at=None) & has_expired,
            KeyState.REVOKED: Q(revoked_at__isnull=False),
        }
        value = self.value()
        return queryset.filter(chosen[KeyState(value)]) if value in KeyState.values else queryset


@admin.register(ClientKey)
class ClientKeyAdmin(ConfigurationAdmin):
    list_display = ("label", "shown_prefix", "owner", "state", "expires_at", "last_used_at")
    list_filter = (StateFilter, "owner")
    list_select_related = ("owner",)
    search_fields = ("label", "prefix")
    readonly_fields = (
        "shown_prefix",
        "state",
        "created_at",
        "last_used_at",
        "revoked_at",
        "replaces",
    )
    form = ClientKeyForm
    fieldsets = (
        (
            None,
            {
                "description": "A credential with which a client calls the gateway. The key itself "
                "is shown once, when it is created; only its hash is stored.",
                "fields": ("label", "owner", "expires_at"),
            },
        ),
        ("Limits", {"fields": ("allowed_models", "requests_per_minute", "max_streams")}),
        ("Audit", {"fields": ("capture_content",)}),
        ("The key", {"fields": readonly_fields}),
    )
    actions = ("revoke",)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        return fieldsets if obj else fieldsets[:-1]  # a new key has no state yet

    @admin.display(description="key", ordering="prefix")
    def shown_prefix(self, key: ClientKey) -> str:
        return f"{key.prefix}…"

    @admin.display(description="state")
    def state(self, key: ClientKey) -> str:
        return key.state(clock.now()).label

    @admin.action(description="Revoke the selected keys", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: Any) -> None:
        with editing():
            for key in queryset.filter(revoked_at=None):
                client_keys.revoke(key, clock.now())
                self.log_change(request, key, "Revoked.")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False  # stored exchanges refer to their key

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        making = request.POST.get("making", "")
        if object_id is not None or not making:
            return super().changeform_view(request, object_id, form_url, extra_context)
        with editing():  # the second of two identical forms waits here
            if making in _sent_forms(request):
                messages.warning(request, "This key was already created and shown once.")
                return redirect("admin:proxy_clientkey_changelist")
            return super().changeform_view(request, object_id, form_url, extra_context)

    def save_model(self, request: HttpRequest, obj: ClientKey, form: Any, change: bool) -> None:
        if not change:
            obj.plain_key = new_key()
            obj.adopt(obj.plain_key)
            forms_sent = [*_sent_forms(request), form.cleaned_data["making"]]
            request.session[_CREATED] = forms_sent[-_MAX_CREATED:]
            request.session.save()  # in the same transaction as the key
        super().save_model(request, obj, form, change)

    def response_add(
        self, request: HttpRequest, obj: ClientKey, post_url_continue: str | None = None
    ) -> HttpResponse:
        return show_key(request, obj, obj.plain_key)


def _sent_forms(request: HttpRequest) -> list[str]:
    """Ids of the forms that created keys, read again: another process may have just added one."""
    session = type(request.session)(request.session.session_key)
    form_ids: list[str] = session.get(_CREATED, [])
    return form_ids
