"""The fields of each configuration table that operators set, in the order in which they are shown.

The document and the API use these lists, and a test compares the admin's forms with them. A field
that is not listed here is never exported or accepted, so that a secret cannot slip into a document.
"""

GATEWAY_FIELDS = (
    "default_route",
    "unknown_format",
    "max_body_bytes",
    "max_headers",
    "max_header_bytes",
    "max_json_depth",
    "max_json_nodes",
    "request_timeout",
    "stall_timeout",
    "max_streams",
    "key_max_streams",
    "key_requests_per_minute",
    "max_line_bytes",
    "max_event_bytes",
    "max_answer_bytes",
    "open_after",
    "ping_after",
    "drain_time",
    "capture_content",
    "sample_calls",
    "sample_others",
    "failures_per_hour",
    "transcript_bytes",
    "transcript_days",
    "exchange_days",
)
UPSTREAM_FIELDS = (
    "name",
    "service",
    "dialect",
    "base_url",
    "key_variable",
    "headers",
    "provider_preferences",
    "connect_timeout",
    "first_byte_timeout",
    "idle_timeout",
    "progress_timeout",
    "total_timeout",
    "reuse_connections",
    "active",
)
ROUTE_FIELDS = (
    "pattern",
    "upstream",
    "upstream_model",
    "listed_as",
    "priority",
    "max_tokens",
    "context_window",
    "thinking_tokens",
    "reasoning",
    "parallel_calls",
    "sample_calls",
    "fallback",
    "active",
)
DEFINITION_FIELDS = ("name", "definition", "note", "active")
OVERRIDE_FIELDS = ("pattern", "format", "priority", "note", "active")
FORMAT_FIELDS = ("buffer_limit", "strict", "split_thinking", "markers", "context_warning")
KEY_FIELDS = (
    "label",
    "owner",
    "allowed_models",
    "requests_per_minute",
    "max_streams",
    "capture_content",
    "expires_at",
)
