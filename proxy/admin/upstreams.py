"""Admin of upstreams. API keys can be entered, and are never shown."""

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Count, Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html

from proxy.admin.base import ConfigurationForm, EnvironmentAdmin
from proxy.configuration.editing import check_address
from proxy.configuration.upstream import address_of, read_upstream
from proxy.configuration.upstream_presets import PRESETS
from proxy.models import GatewayProcess, Upstream
from proxy.security.secret_headers import mask_secrets, unmask_secrets, unresolved_secrets


def _suspicion(row: Upstream) -> datetime | None:
    """Return until when some process reuses no connection to the upstream."""
    try:
        return GatewayProcess.suspicion(address_of(read_upstream(row).origin))
    except ValidationError:  # the row cannot be used at all
        return None


class VariableField(forms.CharField):
    """The name of an environment variable, with or without a leading `$`."""

    def to_python(self, value: Any) -> Any:
        return (super().to_python(value) or "").removeprefix("$")


class UpstreamForm(ConfigurationForm):
    new_key = forms.CharField(
        label="API key",
        required=False,
        strip=True,
        widget=forms.PasswordInput(
            render_value=False, attrs={"autocomplete": "new-password", "class": "vTextField"}
        ),
        help_text="Stored encrypted and never shown again.",
    )

    remove_key = forms.BooleanField(label="remove the stored key", required=False)

    class Meta:
        model = Upstream
        fields = "__all__"
        field_classes = {"key_variable": VariableField}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._headers = self.instance.headers
        self.initial["headers"] = mask_secrets(self._headers)
        if self.instance.sealed_key:
            self.fields["new_key"].help_text += " Leave empty to keep the current key."

    def clean_headers(self) -> Any:
        """Replace each `[stored]` by the secret that is stored."""
        given = self.cleaned_data["headers"]
        if not isinstance(given, dict):
            return given
        if unknown := unresolved_secrets(given, self._headers):
            raise forms.ValidationError(f"No value is stored for {', '.join(unknown)}. Enter it.")
        return unmask_secrets(given, self._headers)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if cleaned.get("new_key") and cleaned.get("key_variable"):
            self.add_error("new_key", "Enter a key or the name of a variable, not both.")
        elif cleaned.get("key_variable"):
            self.instance.sealed_key = ""
        elif key := cleaned.get("new_key"):
            self.instance.store_key(key)
        elif cleaned.get("remove_key"):
            self.instance.store_key("")
        return cleaned

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        try:
            check_address(self.instance)
        except ValidationError as error:
            self._update_errors(error)  # type: ignore[attr-defined]


@admin.register(Upstream)
class UpstreamAdmin(EnvironmentAdmin):
    list_display = ("name", "service", "dialect", "base_url", "key", "used_by", "active", "origin")
    search_fields = ("name", "base_url")
    readonly_fields = ("key",)
    form = UpstreamForm
    fieldsets = (
        (
            None,
            {
                "description": "A server that the gateway calls: its address, its dialect, and "
                "which service it is.",
                "fields": ("name", "service", "dialect", "base_url", "active"),
            },
        ),
        (
            "Credential",
            {
                "description": "A key that is stored here, or the name of an environment variable "
                "that is set for every process of the gateway.",
                "fields": ("key", "new_key", "remove_key", "key_variable"),
            },
        ),
        (
            "Requests",
            {
                "description": "Added to every request. The value of a header is never shown again "
                "if its name contains key, token, secret, auth or cookie.",
                "classes": ("collapse",),
                "fields": ("headers", "provider_preferences"),
            },
        ),
        (
            "Connections",
            {
                "description": "A connection normally serves one request after another, which "
                "saves the time to set it up.",
                "classes": ("collapse",),
                "fields": ("reuse_connections",),
            },
        ),
        (
            "Timeouts",
            {
                "description": "How long each part of an answer may take. Local models may need "
                "minutes before they send anything.",
                "classes": ("collapse",),
                "fields": (
                    "connect_timeout",
                    "first_byte_timeout",
                    "idle_timeout",
                    "progress_timeout",
                    "total_timeout",
                ),
            },
        ),
    )
    previews = True

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Any]":
        rows: QuerySet[Any] = super().get_queryset(request).annotate(route_count=Count("routes"))
        return rows

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        given: dict[str, Any] = dict(super().get_changeform_initial_data(request))
        preset = PRESETS.get(given.pop("preset", ""))
        return {**(preset.fields if preset else {}), **given}

    def get_fieldsets(self, request: HttpRequest, obj: Upstream | None = None) -> Any:
        hidden = set() if obj and obj.sealed_key else {"remove_key"}
        hidden |= set() if obj else {"key"}
        return [
            (title, {**options, "fields": [n for n in options["fields"] if n not in hidden]})
            for title, options in super().get_fieldsets(request, obj)
        ]

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        chosen = request.GET.get("preset", "")
        context = {"presets": PRESETS, "preset": PRESETS.get(chosen), **(extra_context or {})}
        return super().add_view(request, form_url, context)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row = kwargs.get("obj")
        context["suspected_until"] = _suspicion(row) if row else None
        return super().render_change_form(request, context, *args, **kwargs)

    def response_add(
        self, request: HttpRequest, obj: Upstream, post_url_continue: str | None = None
    ) -> HttpResponse:
        response = super().response_add(request, obj, post_url_continue)
        self._suggest_test(request, obj)
        return response

    def response_change(self, request: HttpRequest, obj: Upstream) -> HttpResponse:
        response = super().response_change(request, obj)
        self._suggest_test(request, obj)
        return response

    def _suggest_test(self, request: HttpRequest, obj: Upstream) -> None:
        if trouble := read_upstream(obj).trouble:
            messages.warning(request, f"The upstream is saved but cannot be used: {trouble}.")
        test = reverse("configuration:test", args=[obj.pk])
        link = '<a href="{}">Test the connection</a> before you route models to it.'
        messages.info(request, format_html(link, test))

    def dependants(self, row: Upstream) -> list[Model]:
        return [*row.routes.all()]

    @admin.display(description="current key")
    def key(self, row: Upstream) -> str:
        return row.key_hint()

    @admin.display(description="used by", ordering="route_count")
    def used_by(self, row: Any) -> str:
        return f"{row.route_count} route{'' if row.route_count == 1 else 's'}"
