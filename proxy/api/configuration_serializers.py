"""Serializers of the configuration. Names ending in `In` are requests, in `Out` responses.

Rows refer to each other by name. Secrets are accepted and never returned: responses hold hints. An
unknown field is an error, so that a typo is not mistaken for a change. Serializers check only the
shape of a request; the models validate the values.

Every `…Out` row has a `version`, which `proxy.configuration.history.with_version` adds.
"""

import math
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.db import models
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail

from proxy.api.errors import UNKNOWN_FIELD
from proxy.configuration.fields import (
    DEFINITION_FIELDS,
    FORMAT_FIELDS,
    GATEWAY_FIELDS,
    KEY_FIELDS,
    OVERRIDE_FIELDS,
    ROUTE_FIELDS,
    UPSTREAM_FIELDS,
)
from proxy.configuration.history import KINDS
from proxy.database.clock import clock
from proxy.models import (
    ClientKey,
    FormatDefinition,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    KeyState,
    ModelRoute,
    Upstream,
)
from proxy.security.secret_headers import mask_secrets

FORMAT_REASONS = ("override", "definition", "detection", "default")
CHANGE_KINDS = tuple(KINDS.values())
_MAX_PATTERNS = 200


class FiniteFloat(serializers.FloatField):
    """A float that is neither NaN nor infinite."""

    def to_internal_value(self, data: Any) -> float:
        value = super().to_internal_value(data)
        if not math.isfinite(value):
            self.fail("invalid")
        return value


class NameOfRow(serializers.SlugRelatedField[Any]):
    """A reference to another row by its name."""

    default_error_messages = {"does_not_exist": "No row has the {slug_name} {value!r}."}

    def to_internal_value(self, data: Any) -> Any:
        name = serializers.CharField(max_length=200).run_validation(data)
        return super().to_internal_value(name)


@extend_schema_field({"type": "object", "additionalProperties": {}})
class AnyObject(serializers.DictField):
    child = serializers.JSONField(allow_null=True)


class Headers(serializers.DictField):
    child = serializers.CharField(max_length=2000, allow_blank=True)


class TokenSpellings(serializers.DictField):
    child = serializers.ListField(
        child=serializers.CharField(max_length=200, trim_whitespace=False)
    )


class Patterns(serializers.ListField):
    child = serializers.CharField(max_length=200)


class StrictSerializer(serializers.Serializer[Any]):
    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) and (unknown := sorted(data.keys() - self.fields.keys())):
            sentence = ErrorDetail("This field does not exist or cannot be set.", UNKNOWN_FIELD)
            raise serializers.ValidationError({unknown[0]: [sentence]})
        return super().to_internal_value(data)


class RowIn(StrictSerializer, serializers.ModelSerializer[Any]):
    serializer_field_mapping = {
        **serializers.ModelSerializer.serializer_field_mapping,
        models.FloatField: FiniteFloat,
    }

    def build_standard_field(self, field_name: str, model_field: Any) -> Any:
        field, options = super().build_standard_field(field_name, model_field)
        options.pop("validators", None)  # the model runs them when the row is saved
        return field, options


class UpstreamIn(RowIn):
    key = serializers.CharField(
        write_only=True,
        required=False,
        allow_blank=True,
        max_length=4000,
        help_text="The API key, stored encrypted and never returned. An empty string removes it.",
    )
    headers = Headers(
        required=False,
        help_text="Sent with every request. `[stored]` keeps the stored value of a secret header.",
    )
    provider_preferences = AnyObject(
        required=False,
        help_text="OpenRouter's provider object: which providers may serve, and in which order.",
    )

    class Meta:
        model = Upstream
        fields = ("key", *UPSTREAM_FIELDS)

    def validate_key(self, key: str) -> str:
        if not (key.isascii() and key.isprintable()):
            raise serializers.ValidationError(
                "The key has characters that an HTTP header cannot carry."
            )
        return key


class RouteIn(RowIn):
    upstream = NameOfRow("name", queryset=Upstream.objects.all(), help_text="The upstream's name.")
    fallback = NameOfRow(
        "pattern",
        queryset=ModelRoute.objects.all(),
        required=False,
        allow_null=True,
        help_text="The pattern of the route to try when this one fails, or null.",
    )

    class Meta:
        model = ModelRoute
        fields = ROUTE_FIELDS


class DefinitionIn(RowIn):
    definition = AnyObject(help_text="Grammars, markers, detection patterns and a sample.")

    class Meta:
        model = FormatDefinition
        fields = DEFINITION_FIELDS


class OverrideIn(RowIn):
    class Meta:
        model = FormatOverride
        fields = OVERRIDE_FIELDS


class FormatIn(RowIn):
    markers = TokenSpellings(
        required=False,
        help_text='Additional spellings of its tokens: {"SECTION_BEGIN": ["<|calls|>"]}',
    )

    class Meta:
        model = FormatSettings
        fields = FORMAT_FIELDS


class SettingsIn(RowIn):
    default_route = NameOfRow(
        "pattern",
        queryset=ModelRoute.objects.all(),
        required=False,
        allow_null=True,
        help_text="The pattern of the route for model names that match no other route, or null.",
    )

    class Meta:
        model = GatewaySettings
        fields = GATEWAY_FIELDS


class KeyIn(RowIn):
    owner = NameOfRow(
        "username",
        queryset=get_user_model()._default_manager.all(),
        required=False,
        allow_null=True,
        help_text="A username, or null.",
    )
    allowed_models = Patterns(
        required=False,
        max_length=_MAX_PATTERNS,
        help_text="Patterns of the model names that the key may use; an empty list allows all.",
    )

    class Meta:
        model = ClientKey
        fields = KEY_FIELDS

    def validate_expires_at(self, moment: datetime | None) -> datetime | None:
        if moment is not None and moment <= clock.now():
            raise serializers.ValidationError(
                "This time is in the past. To end a key immediately, revoke it."
            )
        return moment


class RotateIn(StrictSerializer):
    overlap_hours = serializers.IntegerField(
        min_value=0, max_value=720, default=24, help_text="How long the old key stays valid."
    )


class RowOut(serializers.ModelSerializer[Any]):
    version = serializers.IntegerField(
        read_only=True,
        help_text="The configuration version that last changed the row. It is also the ETag.",
    )

    def get_extra_kwargs(self) -> dict[str, Any]:
        return {name: {"read_only": True} for name in self.Meta.fields}


class RowName(serializers.CharField):
    """The name of a related row, or null."""

    def __init__(self, source: str) -> None:
        super().__init__(source=source, default=None, read_only=True, allow_null=True)


class UpstreamOut(RowOut):
    key_hint = serializers.CharField(
        read_only=True,
        help_text="`…` and the last four characters, `$VARIABLE`, `stored`, `none`, `unreadable`.",
    )
    headers = serializers.SerializerMethodField(
        help_text="Headers; the value of a secret header is `[stored]`."
    )
    provider_preferences = AnyObject(read_only=True)

    class Meta:
        model = Upstream
        fields = ("id", "version", *UPSTREAM_FIELDS, "key_hint", "from_environment")

    @extend_schema_field(Headers)
    def get_headers(self, row: Upstream) -> Any:
        return mask_secrets(row.headers)


class RouteOut(RowOut):
    upstream = serializers.CharField(source="upstream.name", read_only=True)
    fallback = RowName("fallback.pattern")

    class Meta:
        model = ModelRoute
        fields = ("id", "version", *ROUTE_FIELDS, "from_environment")


class DefinitionOut(RowOut):
    definition = AnyObject(read_only=True)

    class Meta:
        model = FormatDefinition
        fields = ("id", "version", *DEFINITION_FIELDS)


class OverrideOut(RowOut):
    class Meta:
        model = FormatOverride
        fields = ("id", "version", *OVERRIDE_FIELDS)


class FormatOut(RowOut):
    markers = TokenSpellings(read_only=True)

    class Meta:
        model = FormatSettings
        fields = ("format", "version", *FORMAT_FIELDS)


class SettingsOut(RowOut):
    default_route = RowName("default_route.pattern")

    class Meta:
        model = GatewaySettings
        fields = ("version", *GATEWAY_FIELDS)


class KeyOut(RowOut):
    owner = RowName("owner.username")
    allowed_models = Patterns(read_only=True)
    state = serializers.SerializerMethodField()
    replaced_by = serializers.IntegerField(
        source="successor",
        read_only=True,
        allow_null=True,
        help_text="The id of the key that replaced this one.",
    )

    class Meta:
        model = ClientKey
        fields = (
            "id",
            "version",
            *KEY_FIELDS,
            "prefix",
            "state",
            "created_at",
            "revoked_at",
            "last_used_at",
            "from_environment",
            "replaces",
            "replaced_by",
        )

    @extend_schema_field(serializers.ChoiceField(choices=KeyState.choices))
    def get_state(self, row: ClientKey) -> str:
        return row.state(clock.now()).value


class CreatedKeyOut(KeyOut):
    """A client key with the key itself, which is returned only when it is created."""

    key = serializers.CharField(source="plain_key", read_only=True)

    class Meta:
        model = ClientKey
        fields = (*KeyOut.Meta.fields, "key")


class FieldChangeOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    label = serializers.CharField(help_text="The field's name as the admin shows it.")  # type: ignore[assignment]
    old = serializers.CharField(help_text="`–` if it was empty.")
    new = serializers.CharField()


class ChangeOut(serializers.Serializer[Any]):
    """A change of a row."""

    version = serializers.IntegerField(help_text="The configuration version that the change made.")
    kind = serializers.ChoiceField(choices=CHANGE_KINDS)
    changed_at = serializers.DateTimeField()
    changed_by = serializers.CharField(
        allow_null=True, help_text="A username; null if the gateway or a command made the change."
    )
    reason = serializers.CharField(help_text="The reason for the change; may be empty.")
    changes = FieldChangeOut(
        many=True, help_text="Empty if only a secret changed: the history does not record secrets."
    )


class VersionOut(serializers.Serializer[Any]):
    """The version of the configuration as a whole."""

    version = serializers.IntegerField()
    changed_at = serializers.DateTimeField(allow_null=True)
    changed_by = serializers.CharField(allow_null=True)


class ConflictOut(VersionOut):
    """The current version of a row, and who changed it last."""

    detail = serializers.CharField()


class ResolvedRouteOut(serializers.Serializer[Any]):
    """The upstream that serves a model name, and the format of its answers."""

    pattern = serializers.CharField(help_text="The pattern of the route.")
    upstream = serializers.CharField()
    trouble = serializers.CharField(
        help_text="The reason why the upstream cannot be called; empty if it can."
    )
    upstream_model = serializers.CharField(help_text="The upstream's name for the model.")
    format = serializers.CharField()
    format_reason = serializers.ChoiceField(choices=FORMAT_REASONS)
    format_origin = serializers.CharField(help_text="The reason for the format, in words.")
    buffer_limit = serializers.IntegerField()
    strict = serializers.BooleanField()
    split_thinking = serializers.CharField(allow_null=True)
    context_warning = serializers.IntegerField(allow_null=True)
    max_tokens = serializers.IntegerField(allow_null=True)
    context_window = serializers.IntegerField(allow_null=True)
    thinking_tokens = serializers.IntegerField(allow_null=True)
    parallel_calls = serializers.BooleanField()
    sample_calls = serializers.FloatField()


class ResolutionOut(ResolvedRouteOut):
    model = serializers.CharField(help_text="The requested name.")
    version = serializers.IntegerField(help_text="The configuration version that was used.")
    fallback = ResolvedRouteOut(
        allow_null=True, help_text="The route to try when this one fails before the first byte."
    )
