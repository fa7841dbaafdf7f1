"""Pages of format overrides, and of the settings of each format."""

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from proxy.admin.base import ConfigurationAdmin, SwitchedAdmin
from proxy.models import FormatOverride, FormatSettings


@admin.register(FormatOverride)
class FormatOverrideAdmin(SwitchedAdmin):
    list_display = ("pattern", "format", "priority", "active", "note")
    list_filter = ("format", "active")
    search_fields = ("pattern", "note")
    fieldsets = (
        (
            None,
            {
                "description": "How the text of these models is read, whatever their names tell. "
                "Of the overrides that match, the one with the lowest priority wins; of equal "
                "ones, the first by its characters.",
                "fields": ("pattern", "format", "priority", "active", "note"),
            },
        ),
    )
    previews = True


@admin.register(FormatSettings)
class FormatSettingsAdmin(ConfigurationAdmin):
    list_display = ("format", "buffer_limit", "strict", "markers", "context_warning")
    readonly_fields = ("format",)
    fieldsets = (
        (
            None,
            {
                "description": "For every model whose text is read as this format.",
                "fields": ("format", "buffer_limit", "strict", "context_warning"),
            },
        ),
        (
            "Tokens",
            {
                "description": "For models that spell the format's tokens in another way.",
                "classes": ("collapse",),
                "fields": ("markers",),
            },
        ),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # every format has its row from the start

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
