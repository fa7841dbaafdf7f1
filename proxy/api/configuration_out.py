"""The configuration, as it comes out: names for rows, hints for secrets.

Every row has a `version`, which `proxy.configuration.history.with_version` read with it.
"""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from proxy.api.configuration_in import (
    AnyObject,
    FormatIn,
    Headers,
    KeyIn,
    OverrideIn,
    Patterns,
    RouteIn,
    SettingsIn,
    Spellings,
    UpstreamIn,
)
from proxy.configuration.history import KINDS
from proxy.database.clock import clock
from proxy.models import (
    ClientKey,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    KeyState,
    ModelRoute,
    Upstream,
)
from proxy.security.secret_headers import concealed

FORMAT_REASONS = ("override", "detection", "default")
CHANGE_KINDS = tuple(KINDS.values())


class RowOut(serializers.ModelSerializer[Any]):
    version = serializers.IntegerField(
        read_only=True,
        help_text="Of the configuration, that the row's last change made; also its ETag.",
    )

    def get_extra_kwargs(self) -> dict[str, Any]:
        return {name: {"read_only": True} for name in self.Meta.fields}


class Name(serializers.CharField):
    """Of another row; null for none."""

    def __init__(self, source: str) -> None:
        super().__init__(source=source, default=None, read_only=True, allow_null=True)


class UpstreamOut(RowOut):
    key_hint = serializers.CharField(
        read_only=True,
        help_text="`…` and the last four characters, `$VARIABLE`, `stored`, `none`, `unreadable`.",
    )
    headers = serializers.SerializerMethodField(
        help_text="Of those whose name tells of a secret, the value is `[stored]`."
    )
    provider_preferences = AnyObject(read_only=True)

    class Meta:
        model = Upstream
        fields = ("id", "version", *UpstreamIn.Meta.fields[1:], "key_hint", "from_environment")

    @extend_schema_field(Headers)
    def get_headers(self, row: Upstream) -> Any:
        return concealed(row.headers)


class RouteOut(RowOut):
    upstream = serializers.CharField(source="upstream.name", read_only=True)
    fallback = Name("fallback.pattern")

    class Meta:
        model = ModelRoute
        fields = ("id", "version", *RouteIn.Meta.fields, "from_environment")


class OverrideOut(RowOut):
    class Meta:
        model = FormatOverride
        fields = ("id", "version", *OverrideIn.Meta.fields)


class FormatOut(RowOut):
    markers = Spellings(read_only=True)

    class Meta:
        model = FormatSettings
        fields = ("format", "version", *FormatIn.Meta.fields)


class SettingsOut(RowOut):
    default_route = Name("default_route.pattern")

    class Meta:
        model = GatewaySettings
        fields = ("version", *SettingsIn.Meta.fields)


class KeyOut(RowOut):
    owner = Name("owner.username")
    allowed_models = Patterns(read_only=True)
    state = serializers.SerializerMethodField()
    replaced_by = serializers.IntegerField(
        source="successor",
        read_only=True,
        allow_null=True,
        help_text="The number of the key that was made to take its place.",
    )

    class Meta:
        model = ClientKey
        fields = (
            "id",
            "version",
            *KeyIn.Meta.fields,
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


class KeyMadeOut(KeyOut):
    """With the key itself, this once."""

    key = serializers.CharField(source="plain_key", read_only=True)

    class Meta:
        model = ClientKey
        fields = (*KeyOut.Meta.fields, "key")


class FieldChangeOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    label = serializers.CharField(help_text="The field's name, for people.")  # type: ignore[assignment]
    old = serializers.CharField(help_text="`–` for nothing.")
    new = serializers.CharField()


class ChangeOut(serializers.Serializer[Any]):
    """What somebody did to a row."""

    version = serializers.IntegerField(help_text="Of the configuration, that the change made.")
    kind = serializers.ChoiceField(choices=CHANGE_KINDS)
    changed_at = serializers.DateTimeField()
    changed_by = serializers.CharField(
        allow_null=True, help_text="A user's name; null if no person did it."
    )
    reason = serializers.CharField(help_text="Why, where it is known.")
    changes = FieldChangeOut(
        many=True, help_text="None if only a secret was changed, of which records know nothing."
    )


class VersionOut(serializers.Serializer[Any]):
    """The configuration as a whole."""

    version = serializers.IntegerField()
    changed_at = serializers.DateTimeField(allow_null=True)
    changed_by = serializers.CharField(allow_null=True)


class OutOfDateOut(VersionOut):
    """The object as it is by now: who changed it last, and when."""

    detail = serializers.CharField()


class TreatmentOut(serializers.Serializer[Any]):
    """Where a model's name leads, and how the answer is read."""

    pattern = serializers.CharField(help_text="Of the route.")
    upstream = serializers.CharField()
    trouble = serializers.CharField(help_text="Why the upstream cannot be called; empty if it can.")
    upstream_model = serializers.CharField(help_text="The upstream's name for the model.")
    format = serializers.CharField()
    format_reason = serializers.ChoiceField(choices=FORMAT_REASONS)
    buffer_limit = serializers.IntegerField()
    strict = serializers.BooleanField()
    context_warning = serializers.IntegerField(allow_null=True)
    max_tokens = serializers.IntegerField(allow_null=True)
    context_window = serializers.IntegerField(allow_null=True)
    parallel_calls = serializers.BooleanField()
    sample_calls = serializers.FloatField()


class ResolutionOut(TreatmentOut):
    model = serializers.CharField(help_text="The name that was asked for.")
    version = serializers.IntegerField(help_text="Of the configuration that says so.")
    fallback = TreatmentOut(
        allow_null=True, help_text="What is tried when this fails before the first byte."
    )
