"""Pages of client keys. A key is shown once, to whoever makes it; it is revoked, never deleted."""

import re
import secrets
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from proxy.admin.base import ConfigurationAdmin, ConfigurationForm
from proxy.database.clock import clock
from proxy.models import ClientKey, ConfigurationVersion, KeyState
from proxy.models.keys import new_key
from proxy.pages.client_keys import show_key

_MADE = "made_keys"
_MOST_MADE = 20


class PatternsField(forms.CharField):
    """A list of patterns, each on a line of its own."""

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
        help_text="Patterns of the model names that it may use, one on each line; none allows all.",
    )
    making = forms.CharField(required=False, widget=forms.HiddenInput)
    """Tells a new key from the same form sent again."""

    class Meta:
        model = ClientKey
        fields = "__all__"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["making"] = secrets.token_urlsafe(12)

    def clean_expires_at(self) -> Any:
        moment = self.cleaned_data["expires_at"]
        if "expires_at" in self.changed_data and moment and moment <= clock.now():
            raise forms.ValidationError("That moment is over. To end a key at once, revoke it.")
        return moment


class StateFilter(admin.SimpleListFilter):
    title = parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state.value, state.label) for state in KeyState]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        is_over = Q(expires_at__lte=clock.now())
        chosen = {
            KeyState.ACTIVE: Q(revoked_at=None) & ~is_over,
            KeyState.EXPIRED: Q(revoked_at=None) & is_over,
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
                "description": "Who may call the gateway. The key itself is shown once, when it is "
                "made; only its hash is stored.",
                "fields": ("label", "owner", "expires_at"),
            },
        ),
        ("Limits", {"fields": ("allowed_models", "requests_per_minute", "max_streams")}),
        ("Audit", {"fields": ("capture_content",)}),
        ("The key", {"fields": readonly_fields}),
    )
    actions = ("revoke",)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        found = super().get_fieldsets(request, obj)
        return found if obj else found[:-1]  # of one that is not made yet there is nothing to tell

    @admin.display(description="key", ordering="prefix")
    def shown_prefix(self, key: ClientKey) -> str:
        return f"{key.prefix}…"

    @admin.display(description="state")
    def state(self, key: ClientKey) -> str:
        return key.state(clock.now()).label

    @admin.action(description="Revoke the selected keys", permissions=["change"])
    @transaction.atomic
    def revoke(self, request: HttpRequest, queryset: Any) -> None:
        ConfigurationVersion.lock()
        for key in queryset.filter(revoked_at=None):
            key.revoke(clock.now())  # an update in bulk would not be a new version
            self.log_change(request, key, "Revoked.")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False  # the audit's rows would not know whose they were

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
        with transaction.atomic():
            ConfigurationVersion.lock()  # here the same form waits, if it was sent twice at once
            if making in _made(request):
                messages.warning(request, "That key was made already, and shown once.")
                return redirect("admin:proxy_clientkey_changelist")
            return super().changeform_view(request, object_id, form_url, extra_context)

    def save_model(self, request: HttpRequest, obj: ClientKey, form: Any, change: bool) -> None:
        if not change:
            obj.plain_key = new_key()
            obj.adopt(obj.plain_key)
            made = [*_made(request), form.cleaned_data["making"]]
            request.session[_MADE] = made[-_MOST_MADE:]
            request.session.save()  # with the key, and not after it
        super().save_model(request, obj, form, change)

    def response_add(
        self, request: HttpRequest, obj: ClientKey, post_url_continue: str | None = None
    ) -> HttpResponse:
        return show_key(request, obj, obj.plain_key)


def _made(request: HttpRequest) -> list[str]:
    """The forms that keys were made of, read again: another process may have made one just now."""
    store = type(request.session)(request.session.session_key)
    found: list[str] = store.get(_MADE, [])
    return found
