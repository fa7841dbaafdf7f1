"""URLs of the management API."""

from django.urls import path
from rest_framework.routers import SimpleRouter

from proxy.api.audit_views import Exchanges, Groups, Transcripts
from proxy.api.configuration_views import (
    Definitions,
    Formats,
    Keys,
    Overrides,
    Routes,
    Settings,
    Upstreams,
)
from proxy.api.docs import Schema, docs
from proxy.api.resolution_views import Resolution, Version

router = SimpleRouter()
router.register("exchanges", Exchanges, basename="exchange")
router.register("groups", Groups, basename="group")
router.register("transcripts", Transcripts, basename="transcript")
router.register("upstreams", Upstreams, basename="upstream")
router.register("routes", Routes, basename="route")
router.register("overrides", Overrides, basename="override")
router.register("definitions", Definitions, basename="definition")
router.register("formats", Formats, basename="format")
router.register("keys", Keys, basename="key")

_settings = Settings.as_view({"get": "retrieve", "patch": "partial_update"})

urlpatterns = [
    *router.urls,
    path("settings/", _settings, name="settings"),
    path("settings/history/", Settings.as_view({"get": "history"}), name="settings-history"),
    path(
        "settings/history/<int:version>/revert/",
        Settings.as_view({"post": "revert"}),
        name="settings-revert",
    ),
    path("configuration/", Version.as_view(), name="configuration"),
    path("resolve/", Resolution.as_view(), name="resolve"),
    path("schema/", Schema.as_view(), name="schema"),
    path("docs/", docs, name="docs"),
]
