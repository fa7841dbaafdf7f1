"""Admin of model routes."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse

from proxy.admin.base import ConfigurationForm, EnvironmentAdmin
from proxy.configuration.editing import check_default_route
from proxy.models import GatewaySettings, ModelRoute


class ModelRouteForm(ConfigurationForm):
    class Meta:
        model = ModelRoute
        fields = "__all__"
        help_texts = {
            "context_window": "Input and output tokens together. A route that is added from the "
            "upstream's list of models has the value of that list."
        }

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        try:
            check_default_route(self.instance)
        except ValidationError as error:
            self._update_errors(error)  # type: ignore[attr-defined]


@admin.register(ModelRoute)
class ModelRouteAdmin(EnvironmentAdmin):
    list_display = (
        "pattern",
        "upstream",
        "upstream_model",
        "fallback",
        "priority",
        "active",
        "origin",
    )
    list_filter = ("upstream", "active")
    list_select_related = ("upstream", "fallback")
    search_fields = ("pattern", "upstream_model", "listed_as")
    form = ModelRouteForm
    fieldsets = (
        (
            None,
            {
                "description": "Which upstream serves which model names. Of the routes that match "
                "a name, the one with the lowest priority wins; with equal priorities, the first "
                "pattern in alphabetical order.",
                "fields": (
                    "pattern",
                    "upstream",
                    "upstream_model",
                    "fallback",
                    "priority",
                    "active",
                ),
            },
        ),
        (
            "The model",
            {
                "description": "Properties of the model that requests do not tell the gateway.",
                "classes": ("collapse",),
                "fields": (
                    "max_tokens",
                    "context_window",
                    "thinking_tokens",
                    "reasoning",
                    "parallel_calls",
                ),
            },
        ),
        (
            "Clients",
            {
                "description": "How the model is listed in /v1/models.",
                "classes": ("collapse",),
                "fields": ("listed_as",),
            },
        ),
        (
            "Audit",
            {
                "description": "How many of its transcripts are stored.",
                "classes": ("collapse",),
                "fields": ("sample_calls",),
            },
        ),
    )
    previews = True

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_foreignkey(db_field, request, **kwargs)
        if db_field.name == "upstream" and field is not None:
            # Where the form's script finds the chosen upstream's models.
            field.widget.attrs["data-models"] = reverse("configuration:models", args=[0])
        return field

    def dependants(self, row: ModelRoute) -> list[Model]:
        return [*row.fallback_for.all(), *GatewaySettings.objects.filter(default_route=row)]
