"""The configuration, as it goes in: names for rows, and secrets this way only.

What is sent is checked for its shape alone, and by its name: a field that is not known is refused,
so that a slip of the pen is not taken for a change. The rest is the rows' own to refuse.
"""

import math
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.db import models
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail

from proxy.api.errors import UNKNOWN
from proxy.database.clock import clock
from proxy.models import (
    ClientKey,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Upstream,
)

_MOST_PATTERNS = 200


class Finite(serializers.FloatField):
    """Not-a-number and infinity are floats to Python, and no setting of ours."""

    def to_internal_value(self, data: Any) -> float:
        value = super().to_internal_value(data)
        if not math.isfinite(value):
            self.fail("invalid")
        return value


class Named(serializers.SlugRelatedField[Any]):
    """Another row, by its name."""

    default_error_messages = {"does_not_exist": "There is none with the {slug_name} {value!r}."}

    def to_internal_value(self, data: Any) -> Any:
        name = serializers.CharField(max_length=200).run_validation(data)
        return super().to_internal_value(name)


@extend_schema_field({"type": "object", "additionalProperties": {}})
class AnyObject(serializers.DictField):
    child = serializers.JSONField(allow_null=True)


class Headers(serializers.DictField):
    child = serializers.CharField(max_length=2000, allow_blank=True)


class Spellings(serializers.DictField):
    child = serializers.ListField(
        child=serializers.CharField(max_length=200, trim_whitespace=False)
    )


class Patterns(serializers.ListField):
    child = serializers.CharField(max_length=200)


class Strict(serializers.Serializer[Any]):
    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) and (unknown := sorted(data.keys() - self.fields.keys())):
            sentence = ErrorDetail("There is no such field to set.", UNKNOWN)
            raise serializers.ValidationError({unknown[0]: [sentence]})
        return super().to_internal_value(data)


class RowIn(Strict, serializers.ModelSerializer[Any]):
    serializer_field_mapping = {
        **serializers.ModelSerializer.serializer_field_mapping,
        models.FloatField: Finite,
    }

    def build_standard_field(self, field_name: str, model_field: Any) -> Any:
        field, options = super().build_standard_field(field_name, model_field)
        options.pop("validators", None)  # the row runs its own
        return field, options


class UpstreamIn(RowIn):
    key = serializers.CharField(
        write_only=True,
        required=False,
        allow_blank=True,
        max_length=4000,
        help_text="The API key: stored encrypted, and never shown again. Empty removes it.",
    )
    headers = Headers(
        required=False,
        help_text="Sent with every request. `[stored]` keeps the value of one that has a secret.",
    )
    provider_preferences = AnyObject(
        required=False,
        help_text="OpenRouter's provider object: which providers may serve, and in which order.",
    )

    class Meta:
        model = Upstream
        fields = (
            "key",
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
            "active",
        )

    def validate_key(self, key: str) -> str:
        if not (key.isascii() and key.isprintable()):
            raise serializers.ValidationError("It has characters that no header can carry.")
        return key


class RouteIn(RowIn):
    upstream = Named("name", queryset=Upstream.objects.all(), help_text="Its name.")
    fallback = Named(
        "pattern",
        queryset=ModelRoute.objects.all(),
        required=False,
        allow_null=True,
        help_text="The pattern of the route that is tried when this one fails, or null.",
    )

    class Meta:
        model = ModelRoute
        fields = (
            "pattern",
            "upstream",
            "upstream_model",
            "listed_as",
            "priority",
            "max_tokens",
            "context_window",
            "reasoning",
            "parallel_calls",
            "sample_calls",
            "fallback",
            "active",
        )


class OverrideIn(RowIn):
    class Meta:
        model = FormatOverride
        fields = ("pattern", "format", "priority", "note", "active")


class FormatIn(RowIn):
    markers = Spellings(
        required=False, help_text='More spellings of its tokens: {"SECTION_BEGIN": ["<|calls|>"]}'
    )

    class Meta:
        model = FormatSettings
        fields = ("buffer_limit", "strict", "markers", "context_warning")


class SettingsIn(RowIn):
    default_route = Named(
        "pattern",
        queryset=ModelRoute.objects.all(),
        required=False,
        allow_null=True,
        help_text="The pattern of the route for names that no route matches, or null.",
    )

    class Meta:
        model = GatewaySettings
        fields = (
            "default_route",
            "max_body_bytes",
            "max_line_bytes",
            "max_event_bytes",
            "max_answer_bytes",
            "max_headers",
            "max_header_bytes",
            "max_json_depth",
            "max_json_nodes",
            "request_timeout",
            "stall_timeout",
            "max_streams",
            "key_max_streams",
            "key_requests_per_minute",
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


class KeyIn(RowIn):
    owner = Named(
        "username",
        queryset=get_user_model()._default_manager.all(),
        required=False,
        allow_null=True,
        help_text="A user's name, or null for nobody.",
    )
    allowed_models = Patterns(
        required=False,
        max_length=_MOST_PATTERNS,
        help_text="Patterns of the model names that it may use; an empty list allows all.",
    )

    class Meta:
        model = ClientKey
        fields = (
            "label",
            "owner",
            "allowed_models",
            "requests_per_minute",
            "max_streams",
            "capture_content",
            "expires_at",
        )

    def validate_expires_at(self, moment: datetime | None) -> datetime | None:
        if moment is not None and moment <= clock.now():
            raise serializers.ValidationError("That moment is over. To end a key, revoke it.")
        return moment


class RotateIn(Strict):
    overlap_hours = serializers.IntegerField(
        min_value=0, max_value=720, default=24, help_text="How long the old key goes on."
    )
