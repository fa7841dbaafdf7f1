"""Pages of routes."""

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse

from proxy.admin.base import OwnedAdmin
from proxy.models import GatewaySettings, ModelRoute


@admin.register(ModelRoute)
class ModelRouteAdmin(OwnedAdmin):
    list_display = ("pattern", "upstream", "upstream_model", "priority", "active", "origin")
    list_filter = ("upstream", "active")
    list_select_related = ("upstream",)
    search_fields = ("pattern", "upstream_model", "listed_as")
    fieldsets = (
        (
            None,
            {
                "description": "Which model names go where. Of the routes that match a name, the "
                "one with the lowest priority wins.",
                "fields": ("pattern", "upstream", "upstream_model", "priority", "active"),
            },
        ),
        (
            "The model",
            {
                "description": "What the upstream does not say of the model itself.",
                "classes": ("collapse",),
                "fields": ("max_tokens", "context_window", "reasoning", "parallel_calls"),
            },
        ),
        (
            "Clients",
            {
                "description": "How it is offered in /v1/models, and what is tried when it fails.",
                "classes": ("collapse",),
                "fields": ("listed_as", "fallback"),
            },
        ),
        (
            "Audit",
            {
                "description": "How many of its transcripts are kept.",
                "classes": ("collapse",),
                "fields": ("sample_calls",),
            },
        ),
    )
    previews = True

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_foreignkey(db_field, request, **kwargs)
        if db_field.name == "upstream" and field is not None:
            # Where the form's script finds the models that the chosen one has.
            field.widget.attrs["data-models"] = reverse("configuration:models", args=[0])
        return field

    def dependants(self, row: ModelRoute) -> list[Model]:
        return [*row.fallback_for.all(), *GatewaySettings.objects.filter(default_route=row)]
