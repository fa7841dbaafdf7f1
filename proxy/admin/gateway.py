"""Admin of the gateway settings: a single row that is neither added nor deleted."""

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from proxy.admin.base import ConfigurationAdmin
from proxy.models import GatewaySettings


@admin.register(GatewaySettings)
class GatewaySettingsAdmin(ConfigurationAdmin):
    list_display = (
        "__str__",
        "default_route",
        "unknown_format",
        "max_body_bytes",
        "open_after",
        "ping_after",
    )
    fieldsets = (
        (
            None,
            {
                "description": "Applies to every request, whatever its model.",
                "fields": ("default_route", "unknown_format"),
            },
        ),
        (
            "Requests",
            {
                "description": "How large a request may be, and how long it may take to arrive.",
                "fields": (
                    "max_body_bytes",
                    "max_headers",
                    "max_header_bytes",
                    "max_json_depth",
                    "max_json_nodes",
                    "request_timeout",
                ),
            },
        ),
        (
            "Clients",
            {
                "description": "How many requests a node, and each key, may make.",
                "fields": (
                    "max_streams",
                    "key_max_streams",
                    "key_requests_per_minute",
                    "stall_timeout",
                ),
            },
        ),
        (
            "Streams",
            {
                "description": "What a client receives while it waits, and how long a restart "
                "waits for streams.",
                "fields": ("open_after", "ping_after", "drain_time"),
            },
        ),
        (
            "Upstream answers",
            {
                "description": "How much of an answer may be held in memory.",
                "classes": ("collapse",),
                "fields": ("max_line_bytes", "max_event_bytes", "max_answer_bytes"),
            },
        ),
        (
            "Stored content",
            {
                "description": "Every exchange is stored without its content. Transcripts with the "
                "content are stored for failures and for a share of the other exchanges.",
                "fields": ("capture_content", "sample_calls", "sample_others"),
            },
        ),
        (
            "Retention",
            {
                "description": "Older rows are deleted daily.",
                "fields": (
                    "failures_per_hour",
                    "transcript_bytes",
                    "transcript_days",
                    "exchange_days",
                ),
            },
        ),
    )
    previews = True

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
