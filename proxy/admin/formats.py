"""Admin of format overrides and of each format's settings."""

from django import forms
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from proxy.admin.base import ConfigurationAdmin, ConfigurationForm, SwitchedAdmin
from proxy.models import FormatOverride, FormatSettings
from proxy.models.formats import format_choices


class FormatOverrideForm(ConfigurationForm):
    format = forms.ChoiceField(
        label="Format", choices=format_choices, help_text="A built-in format, or one of your own."
    )

    class Meta:
        model = FormatOverride
        fields = "__all__"


@admin.register(FormatOverride)
class FormatOverrideAdmin(SwitchedAdmin):
    list_display = ("pattern", "format", "priority", "active", "note")
    list_filter = ("format", "active")
    search_fields = ("pattern", "note")
    form = FormatOverrideForm
    fieldsets = (
        (
            None,
            {
                "description": "The format in which these models write tool calls, regardless of "
                "the format detected from their names. Of the overrides that match, the one with "
                "the lowest priority wins; with equal priorities, the first pattern in "
                "alphabetical order.",
                "fields": ("pattern", "format", "priority", "active", "note"),
            },
        ),
    )
    previews = True


@admin.register(FormatSettings)
class FormatSettingsAdmin(ConfigurationAdmin):
    list_display = (
        "format",
        "buffer_limit",
        "strict",
        "split_thinking",
        "markers",
        "context_warning",
    )
    readonly_fields = ("format",)
    fieldsets = (
        (
            None,
            {
                "description": "Applies to every model that uses this format.",
                "fields": ("format", "buffer_limit", "strict", "split_thinking", "context_warning"),
            },
        ),
        (
            "Tokens",
            {
                "description": "For models that spell the format's tokens differently.",
                "classes": ("collapse",),
                "fields": ("markers",),
            },
        ),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # the bootstrap creates a row for every format

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
