"""The page of the gateway's own settings: one row, neither added nor deleted."""

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from proxy.admin.base import ConfigurationAdmin
from proxy.models import GatewaySettings


@admin.register(GatewaySettings)
class GatewaySettingsAdmin(ConfigurationAdmin):
    list_display = ("__str__", "default_route", "max_body_bytes", "open_after", "ping_after")
    fieldsets = (
        (
            None,
            {
                "description": "For every request, whatever its model.",
                "fields": ("default_route",),
            },
        ),
        (
            "Requests",
            {
                "description": "What one request may be, and how long it may take to come.",
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
                "description": "How much there may be of one node, and of one key.",
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
                "description": "How a client is kept waiting, and what happens at a restart.",
                "fields": ("open_after", "ping_after", "drain_time"),
            },
        ),
        (
            "Answers of upstreams",
            {
                "description": "How much of one may be in memory at a time.",
                "classes": ("collapse",),
                "fields": ("max_line_bytes", "max_event_bytes", "max_answer_bytes"),
            },
        ),
        (
            "What is kept",
            {
                "description": "Of every exchange a row without content is kept; transcripts are "
                "kept of failures, and of a share of the others.",
                "fields": ("capture_content", "sample_calls", "sample_others"),
            },
        ),
        (
            "How much, and how long",
            {
                "description": "What is older is deleted daily.",
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
