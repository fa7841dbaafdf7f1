"""Endpoints of the configuration, one class per table."""

from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError as ModelValidationError
from django.db.models import F
from django.http import Http404
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from proxy.api.configuration_serializers import (
    CreatedKeyOut,
    DefinitionIn,
    DefinitionOut,
    FormatIn,
    FormatOut,
    KeyIn,
    KeyOut,
    OverrideIn,
    OverrideOut,
    RotateIn,
    RouteIn,
    RouteOut,
    SettingsIn,
    SettingsOut,
    UpstreamIn,
    UpstreamOut,
)
from proxy.api.errors import NotPossible, serializer_error
from proxy.api.openapi import describe_actions
from proxy.api.row_views import (
    EditableTableEndpoint,
    RowEndpoint,
    RowListEndpoint,
    permissions_of,
)
from proxy.configuration import client_keys
from proxy.configuration.editing import editing
from proxy.configuration.history import records
from proxy.database.clock import clock
from proxy.models import (
    ClientKey,
    FormatDefinition,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Upstream,
)
from proxy.models.keys import new_key
from proxy.security.secret_headers import unmask_secrets, unresolved_secrets


@describe_actions("an upstream", "Upstreams, by name")
class Upstreams(EditableTableEndpoint):
    required_permissions = permissions_of("upstream")
    queryset = Upstream.objects.all()
    serializer_class = UpstreamOut
    input_serializer = UpstreamIn
    lookups = {"name": "name"}
    uses = ("leads to it", "lead to it")

    def assign(self, row: Upstream, values: dict[str, Any]) -> set[str]:
        key = values.pop("key", None)
        if key and values.get("key_variable"):
            raise serializer_error({"key": ["Send a key or the name of a variable, not both."]}, {})
        if "headers" in values:
            for name in unresolved_secrets(values["headers"], row.headers):
                raise serializer_error(
                    {"headers": [f"No value is stored for the header {name!r}."]}, {}
                )
            values["headers"] = unmask_secrets(values["headers"], row.headers)
        names = super().assign(row, values)
        if key is not None:
            row.store_key(key)
        elif row.key_variable:
            row.sealed_key = ""
        return {*names, "sealed_key", "key_variable"}


@describe_actions("a route", "Routes, by precedence")
class Routes(EditableTableEndpoint):
    required_permissions = permissions_of("modelroute")
    queryset = ModelRoute.objects.select_related("upstream", "fallback")
    serializer_class = RouteOut
    input_serializer = RouteIn
    lookups = {"pattern": "pattern", "upstream": "upstream__name"}
    uses = ("falls back to it", "fall back to it")


@describe_actions("a format of an operator", "Formats that operators have defined, by name")
class Definitions(EditableTableEndpoint):
    required_permissions = permissions_of("formatdefinition")
    queryset = FormatDefinition.objects.all()
    serializer_class = DefinitionOut
    input_serializer = DefinitionIn
    lookups = {"name": "name"}
    dependants_noun = "override"


@describe_actions("a format override", "Format overrides, by precedence")
class Overrides(EditableTableEndpoint):
    required_permissions = permissions_of("formatoverride")
    queryset = FormatOverride.objects.all()
    serializer_class = OverrideOut
    input_serializer = OverrideIn
    lookups = {"pattern": "pattern", "format": "format"}


@describe_actions("the settings of a format", "The settings of every format")
class Formats(RowListEndpoint):
    required_permissions = permissions_of("formatsettings")
    queryset = FormatSettings.objects.all()
    serializer_class = FormatOut
    input_serializer = FormatIn
    lookup_field = "format"
    lookup_url_kwarg = "name"  # in REST framework, `format` is the media type
    lookup_value_regex = "[a-z0-9_-]{1,20}"

    def row_records(self) -> Any:
        return records(FormatSettings).filter(format=self.kwargs["name"])


@describe_actions("the settings of the gateway")
class Settings(RowEndpoint):
    required_permissions = permissions_of("gatewaysettings")
    queryset = GatewaySettings.objects.select_related("default_route")
    serializer_class = SettingsOut
    input_serializer = SettingsIn

    def get_object(self) -> GatewaySettings:
        row: GatewaySettings | None = self.get_queryset().first()
        if row is None:
            raise Http404
        return row

    def row_records(self) -> Any:
        return records(GatewaySettings)


@describe_actions("a client key", "Client keys, by label")
class Keys(RowListEndpoint):
    required_permissions = {
        **permissions_of("clientkey"),
        "revoke": ("view_clientkey", "change_clientkey"),
        "rotate": ("view_clientkey", "change_clientkey", "add_clientkey"),
    }
    queryset = ClientKey.objects.select_related("owner").annotate(successor=F("replaced_by__pk"))
    serializer_class = KeyOut
    input_serializer = KeyIn
    lookups = {"label": "label", "owner": "owner__username"}

    def create(self, request: Request) -> Response:
        with editing():
            row, plain = ClientKey(), new_key()
            row.adopt(plain)
            self.save(row, self.validated(KeyIn, partial=False))
            return self._created(row, plain)

    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, **kwargs: str) -> Response:
        with editing():
            row = self.get_object()
            self.check_version(row)
            client_keys.revoke(row, clock.now())
            return self.row_response(self.get_object())

    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, **kwargs: str) -> Response:
        with editing():
            row = self.get_object()
            self.check_version(row)
            overlap = timedelta(hours=self.validated(RotateIn, partial=False)["overlap_hours"])
            try:
                return self._created(*client_keys.rotate(row, overlap, clock.now()))
            except ModelValidationError as error:
                raise NotPossible(" ".join(error.messages)) from error

    def _created(self, key: ClientKey, plain: str) -> Response:
        row = self.get_queryset().get(pk=key.pk)
        row.plain_key = plain
        return self.row_response(row, CreatedKeyOut, status=201)
