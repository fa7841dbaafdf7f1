"""The operators' pages. A row that came from the environment becomes the operator's when saved."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from proxy.models import (
    ClientKey,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Upstream,
)
from proxy.models.keys import new_key

admin.site.site_header = admin.site.site_title = "Athena"
admin.site.index_title = "Home"
admin.site.site_url = None  # there is no other site than this


class OwnedAdmin(admin.ModelAdmin):
    """A page for rows that may have come from the environment."""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.from_environment = False
        super().save_model(request, obj, form, change)

    @admin.display(description="set by")
    def origin(self, row: Any) -> str:
        return "environment" if row.from_environment else "operator"


class UpstreamForm(forms.ModelForm):
    new_key = forms.CharField(
        label="API key",
        required=False,
        strip=True,
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password"}),
        help_text="Stored encrypted and never shown again. Empty keeps the present one.",
    )

    class Meta:
        model = Upstream
        fields = "__all__"  # noqa: DJ007  the fieldsets choose

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("new_key") and cleaned.get("key_variable"):
            self.add_error("new_key", "Give a key or the name of a variable, not both.")
        elif cleaned.get("key_variable"):
            self.instance.sealed_key = ""
        elif key := cleaned.get("new_key"):
            self.instance.store_key(key)
        return cleaned


@admin.register(Upstream)
class UpstreamAdmin(OwnedAdmin):
    list_display = ("name", "service", "dialect", "base_url", "key", "active", "origin")
    list_filter = ("service", "dialect", "active")
    search_fields = ("name", "base_url")
    form = UpstreamForm
    fieldsets = (
        (None, {"fields": ("name", "service", "dialect", "base_url", "active")}),
        ("Credential", {"fields": ("new_key", "key_variable")}),
        ("Requests", {"fields": ("headers", "provider_preferences")}),
        ("Time-outs", {"fields": ("connect_timeout", "first_byte_timeout", "idle_timeout")}),
    )

    @admin.display(description="key")
    def key(self, row: Upstream) -> str:
        return row.key_hint()


@admin.register(ModelRoute)
class ModelRouteAdmin(OwnedAdmin):
    list_display = ("pattern", "upstream", "upstream_model", "priority", "active", "origin")
    list_filter = ("upstream", "active")
    list_select_related = ("upstream",)
    search_fields = ("pattern", "upstream_model", "listed_as")
    autocomplete_fields = ("upstream", "fallback")
    fieldsets = (
        (None, {"fields": ("pattern", "upstream", "upstream_model", "priority", "active")}),
        ("The model", {"fields": ("max_tokens", "context_window", "reasoning", "parallel_calls")}),
        ("Clients", {"fields": ("listed_as", "fallback")}),
        ("Audit", {"fields": ("sample_calls",)}),
    )


@admin.register(FormatOverride)
class FormatOverrideAdmin(admin.ModelAdmin):
    list_display = ("pattern", "format", "priority", "active", "note")
    list_filter = ("format", "active")
    search_fields = ("pattern", "note")


@admin.register(FormatSettings)
class FormatSettingsAdmin(admin.ModelAdmin):
    list_display = ("format", "buffer_limit", "strict", "markers", "context_warning")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # every format has its row from the start

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(GatewaySettings)
class GatewaySettingsAdmin(admin.ModelAdmin):
    list_display = ("__str__", "default_route", "max_body_bytes", "open_after", "ping_after")
    autocomplete_fields = ("default_route",)
    fieldsets = (
        (None, {"fields": ("default_route", "max_body_bytes")}),
        ("Streams", {"fields": ("open_after", "ping_after", "drain_time")}),
        ("What is kept", {"fields": ("capture_content", "sample_calls", "sample_others")}),
        (
            "How much, and how long",
            {
                "fields": (
                    "failures_per_hour",
                    "transcript_bytes",
                    "transcript_days",
                    "exchange_days",
                )
            },
        ),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(ClientKey)
class ClientKeyAdmin(admin.ModelAdmin):
    list_display = ("label", "prefix", "owner", "state", "expires_at", "last_used_at")
    list_filter = ("owner",)
    search_fields = ("label", "prefix")
    readonly_fields = ("prefix", "created_at", "revoked_at", "last_used_at")
    fields = (
        "label",
        "owner",
        "allowed_models",
        "requests_per_minute",
        "max_streams",
        "capture_content",
        "expires_at",
        *readonly_fields,
    )
    actions = ("revoke",)

    @admin.display(description="state")
    def state(self, key: ClientKey) -> str:
        return key.state(timezone.now()).label

    @admin.action(description="Revoke the selected keys")
    def revoke(self, request: HttpRequest, queryset: Any) -> None:
        for key in queryset.filter(revoked_at=None):
            key.revoke(timezone.now())  # an update in bulk would not be a new version
            self.log_change(request, key, "Revoked.")

    def save_model(self, request: HttpRequest, obj: ClientKey, form: Any, change: bool) -> None:
        if not change:
            obj.plain_key = new_key()
            obj.adopt(obj.plain_key)
        super().save_model(request, obj, form, change)

    def response_add(
        self, request: HttpRequest, obj: ClientKey, post_url_continue: str | None = None
    ) -> HttpResponse:
        """The key, once: it is rendered here and kept nowhere."""
        context = {
            **self.admin_site.each_context(request),
            "title": "A new client key",
            "key": obj.plain_key,
            "label": obj.label,
            "url": settings.OWN_URL,
            "opts": self.opts,
        }
        return TemplateResponse(request, "admin/proxy/clientkey/created.html", context)
