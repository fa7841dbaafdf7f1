"""The endpoints of the configuration: one for each table, for operators."""

from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError as Invalid
from django.db.models import F
from django.http import Http404
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from proxy.api.configuration_in import (
    FormatIn,
    KeyIn,
    OverrideIn,
    RotateIn,
    RouteIn,
    SettingsIn,
    UpstreamIn,
)
from proxy.api.configuration_out import (
    FormatOut,
    KeyMadeOut,
    KeyOut,
    OverrideOut,
    RouteOut,
    SettingsOut,
    UpstreamOut,
)
from proxy.api.described import described
from proxy.api.errors import NotPossible, refusal
from proxy.api.rows import EditedRows, ListedRows, Rows, needs_of
from proxy.configuration.history import records
from proxy.database.clock import clock
from proxy.models import (
    ClientKey,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Upstream,
)
from proxy.models.keys import new_key
from proxy.security.secret_headers import revealed, unknown_secrets


@described("an upstream", "Upstreams, by name")
class Upstreams(EditedRows):
    needs = needs_of("upstream")
    queryset = Upstream.objects.all()
    serializer_class = UpstreamOut
    takes = UpstreamIn
    lookups = {"name": "name"}
    uses = ("leads to it", "lead to it")

    def fill(self, row: Upstream, given: dict[str, Any]) -> set[str]:
        key = given.pop("key", None)
        if key and given.get("key_variable"):
            raise refusal({"key": ["Give a key or the name of a variable, not both."]}, {})
        if "headers" in given:
            for name in unknown_secrets(given["headers"], row.headers):
                raise refusal({"headers": [f"Nothing is stored for the header {name!r}."]}, {})
            given["headers"] = revealed(given["headers"], row.headers)
        names = super().fill(row, given)
        if key is not None:
            row.store_key(key)
        elif row.key_variable:
            row.sealed_key = ""
        return {*names, "sealed_key", "key_variable"}


@described("a route", "Routes, by precedence")
class Routes(EditedRows):
    needs = needs_of("modelroute")
    queryset = ModelRoute.objects.select_related("upstream", "fallback")
    serializer_class = RouteOut
    takes = RouteIn
    lookups = {"pattern": "pattern", "upstream": "upstream__name"}
    uses = ("falls back to it", "fall back to it")


@described("a format override", "Format overrides, by precedence")
class Overrides(EditedRows):
    needs = needs_of("formatoverride")
    queryset = FormatOverride.objects.all()
    serializer_class = OverrideOut
    takes = OverrideIn
    lookups = {"pattern": "pattern", "format": "format"}


@described("the settings of a format", "The settings of every format")
class Formats(ListedRows):
    needs = needs_of("formatsettings")
    queryset = FormatSettings.objects.all()
    serializer_class = FormatOut
    takes = FormatIn
    lookup_field = "format"
    lookup_url_kwarg = "name"  # REST framework takes `format` for the media type
    lookup_value_regex = "[a-z0-9_-]{1,20}"

    def past(self) -> Any:
        return records(FormatSettings).filter(format=self.kwargs["name"])


@described("the settings of the gateway")
class Settings(Rows):
    needs = needs_of("gatewaysettings")
    queryset = GatewaySettings.objects.select_related("default_route")
    serializer_class = SettingsOut
    takes = SettingsIn

    def get_object(self) -> GatewaySettings:
        row: GatewaySettings | None = self.get_queryset().first()
        if row is None:
            raise Http404
        return row

    def past(self) -> Any:
        return records(GatewaySettings)


@described("a client key", "Client keys, by label")
class Keys(ListedRows):
    needs = {
        **needs_of("clientkey"),
        "revoke": ("view_clientkey", "change_clientkey"),
        "rotate": ("view_clientkey", "change_clientkey", "add_clientkey"),
    }
    queryset = ClientKey.objects.select_related("owner").annotate(successor=F("replaced_by__pk"))
    serializer_class = KeyOut
    takes = KeyIn
    lookups = {"label": "label", "owner": "owner__username"}

    def create(self, request: Request) -> Response:
        with self.changing():
            row, plain = ClientKey(), new_key()
            row.adopt(plain)
            self.save(row, self.given(KeyIn, partial=False))
            return self._made(row, plain)

    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, **kwargs: str) -> Response:
        with self.changing():
            row = self.get_object()
            self.check_version(row.pk)
            row.revoke(clock.now())
            return self.shown(self.get_object())

    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, **kwargs: str) -> Response:
        with self.changing():
            row = self.get_object()
            self.check_version(row.pk)
            overlap = timedelta(hours=self.given(RotateIn, partial=False)["overlap_hours"])
            try:
                return self._made(*row.rotate(overlap, clock.now()))
            except Invalid as error:
                raise NotPossible(" ".join(error.messages)) from error

    def _made(self, made: ClientKey, plain: str) -> Response:
        row = self.get_queryset().get(pk=made.pk)
        row.plain_key = plain
        return self.shown(row, KeyMadeOut, status=201)
