"""The admin pages of the configuration. Secrets can be entered and are never shown."""

from datetime import UTC, datetime
from html import unescape

import pytest
from django.contrib.admin import site
from django.contrib.auth import get_user_model
from django.test import Client

from proxy.configuration.bootstrap import bootstrap
from proxy.configuration.fields import (
    FORMAT_FIELDS,
    GATEWAY_FIELDS,
    KEY_FIELDS,
    OVERRIDE_FIELDS,
    ROUTE_FIELDS,
    UPSTREAM_FIELDS,
)
from proxy.configuration.upstream import read_upstream
from proxy.models import (
    ClientKey,
    ConfigurationVersion,
    FormatOverride,
    FormatSettings,
    GatewayProcess,
    GatewaySettings,
    ModelRoute,
    Upstream,
)
from proxy.models.keys import digest_of
from tests.support.staff_pages import UPSTREAM_FORM

pytestmark = pytest.mark.django_db
CANARY = "sk-or-v1-canary-that-must-stay-secret"


@pytest.fixture
def pages(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    bootstrap({})
    client = Client()
    client.force_login(get_user_model().objects.get(username="admin"))
    return client


@pytest.mark.parametrize(
    "name",
    [
        "upstream",
        "modelroute",
        "formatoverride",
        "formatdefinition",
        "formatsettings",
        "clientkey",
        "gatewaysettings",
    ],
)
def test_every_table_has_its_pages(pages, name):
    assert pages.get(f"/admin/proxy/{name}/").status_code == 200
    if name not in ("gatewaysettings", "formatsettings"):
        assert pages.get(f"/admin/proxy/{name}/add/").status_code == 200


def test_the_page_of_an_upstream_says_that_its_connections_are_not_reused(pages):
    """W1."""
    row = Upstream.objects.create(name="twofold", base_url="https://twofold.example/v1")
    other = Upstream.objects.create(name="other", base_url="https://other.example/v1")
    until = datetime(2033, 5, 18, 3, 33, tzinfo=UTC)
    state = {"open_streams": 0, "audit_waiting": 0, "audit_dropped": 0}
    suspected = {"https://twofold.example:443": until.timestamp()}
    GatewayProcess.objects.create(token="a", name="old", **state)
    GatewayProcess.objects.create(token="b", name="new", suspected=suspected, **state)
    assert b"reused until 03:33 UTC" in pages.get(f"/admin/proxy/upstream/{row.pk}/change/").content
    assert b"reused until" not in pages.get(f"/admin/proxy/upstream/{other.pk}/change/").content


def test_the_reuse_of_connections_can_be_switched_off(pages):
    """W1."""
    off = {name: value for name, value in UPSTREAM_FORM.items() if name != "reuse_connections"}
    pages.post("/admin/proxy/upstream/add/", off)
    row = Upstream.objects.get(name="mine")
    assert not row.reuse_connections
    assert not read_upstream(row).reuse_connections
    pages.post(f"/admin/proxy/upstream/{row.pk}/change/", UPSTREAM_FORM)
    assert Upstream.objects.get(name="mine").reuse_connections


def test_a_key_is_stored_and_never_shown(pages):
    response = pages.post(
        "/admin/proxy/upstream/add/", UPSTREAM_FORM | {"new_key": CANARY}, follow=True
    )
    assert response.status_code == 200
    row = Upstream.objects.get(name="mine")
    assert row.read_key() == CANARY
    for url in (
        "/admin/proxy/upstream/",
        f"/admin/proxy/upstream/{row.pk}/change/",
        f"/admin/proxy/upstream/{row.pk}/history/",
    ):
        assert CANARY not in pages.get(url).content.decode()
    assert f"…{CANARY[-4:]}" in pages.get("/admin/proxy/upstream/").content.decode()


def test_an_empty_key_keeps_the_current_one(pages):
    pages.post("/admin/proxy/upstream/add/", UPSTREAM_FORM | {"new_key": CANARY})
    row = Upstream.objects.get(name="mine")
    pages.post(f"/admin/proxy/upstream/{row.pk}/change/", UPSTREAM_FORM | {"idle_timeout": "60"})
    row.refresh_from_db()
    assert (row.read_key(), row.idle_timeout) == (CANARY, 60)


def test_only_a_stored_key_can_be_kept_or_removed(pages):
    row = Upstream.objects.create(name="keyless", base_url="https://example.com/v1")
    change = f"/admin/proxy/upstream/{row.pk}/change/"
    for url in ("/admin/proxy/upstream/add/", change):
        page = pages.get(url).content.decode()
        assert "Stored encrypted and never shown again." in page
        assert "remove the stored key" not in page
        assert "keep the current key" not in page
    row.store_key("sk-secret-of-the-upstream")
    row.save()
    page = pages.get(change).content.decode()
    assert "remove the stored key" in page
    assert "Leave empty to keep the current key." in page


def test_the_owner_of_a_key_is_explained(pages):
    page = pages.get("/admin/proxy/clientkey/add/").content.decode()
    assert "can see its requests on their Usage page" in page


def test_a_variable_replaces_a_stored_key(pages):
    pages.post("/admin/proxy/upstream/add/", UPSTREAM_FORM | {"new_key": CANARY})
    row = Upstream.objects.get(name="mine")
    url = f"/admin/proxy/upstream/{row.pk}/change/"
    both = pages.post(url, UPSTREAM_FORM | {"new_key": "sk-2", "key_variable": "SOME_API_KEY"})
    assert "not both" in both.content.decode()
    pages.post(url, UPSTREAM_FORM | {"key_variable": "SOME_API_KEY"})
    row.refresh_from_db()
    assert (row.sealed_key, row.key_variable) == ("", "SOME_API_KEY")


def test_a_form_error_names_the_value(pages):
    response = pages.post(
        "/admin/proxy/upstream/add/", UPSTREAM_FORM | {"base_url": "ftp://nowhere"}
    )
    assert "ftp://nowhere" in response.content.decode()
    assert not Upstream.objects.filter(name="mine").exists()


def test_an_edited_row_stops_following_the_environment(pages):
    route = ModelRoute.objects.get(pattern="claude-*opus*")
    assert route.from_environment
    form = {
        "pattern": route.pattern,
        "upstream": route.upstream_id,
        "upstream_model": "vendor/mine",
        "priority": "100",
        "reasoning": "auto",
        "active": "on",
        "parallel_calls": "on",
    }
    pages.post(f"/admin/proxy/modelroute/{route.pk}/change/", form)
    route.refresh_from_db()
    assert (route.from_environment, route.upstream_model) == (False, "vendor/mine")


def test_a_new_client_key_is_shown_once(pages):
    form = {"label": "ada's laptop", "allowed_models": "claude-*\nkimi-k2"}
    page = pages.post("/admin/proxy/clientkey/add/", form).content.decode()
    row = ClientKey.objects.get(label="ada's laptop")
    key = page.split('<pre class="athena-key" id="key">')[1].split("<")[0]
    assert digest_of(key) == row.digest
    assert row.allowed_models == ["claude-*", "kimi-k2"]
    assert f'ANTHROPIC_AUTH_TOKEN="{key}"' in unescape(page)
    assert key not in pages.get("/admin/proxy/clientkey/").content.decode()
    assert key not in pages.get(f"/admin/proxy/clientkey/{row.pk}/change/").content.decode()


def test_revoking_a_key_makes_a_new_version(pages):
    pages.post("/admin/proxy/clientkey/add/", {"label": "x"})
    row, before = ClientKey.objects.get(label="x"), ConfigurationVersion.objects.get().number
    pages.post("/admin/proxy/clientkey/", {"action": "revoke", "_selected_action": [row.pk]})
    row.refresh_from_db()
    assert row.revoked_at is not None
    assert ConfigurationVersion.objects.get().number > before


def test_markers_are_checked_before_they_are_saved(pages):
    row = FormatSettings.objects.get(format="kimi")
    form = {"format": "kimi", "buffer_limit": "1048576", "markers": '{"NOPE": ["<|x|>"]}'}
    page = pages.post(f"/admin/proxy/formatsettings/{row.pk}/change/", form).content.decode()
    assert "unknown token" in page


def test_every_page_needs_a_login():
    response = Client().get("/admin/proxy/upstream/")
    assert response.status_code == 302
    assert "/admin/login/" in response["location"]


@pytest.mark.parametrize(
    ("page", "fields"),
    [
        ("modelroute/add", ["sample_calls", "fallback", "max_tokens", "reasoning"]),
        ("clientkey/add", ["capture_content", "allowed_models", "expires_at"]),
        ("gatewaysettings/1/change", ["capture_content", "sample_calls", "transcript_days"]),
    ],
)
def test_every_configuration_table_can_be_edited(pages, page, fields):
    html = pages.get(f"/admin/proxy/{page}/").content.decode()
    for field in fields:
        assert f'name="{field}' in html


def test_every_editable_field_is_on_its_page(pages):
    from django.contrib import admin

    from proxy.models import CONFIGURATION

    for model in CONFIGURATION:
        shown = admin.site._registry[model].get_fieldsets(
            pages.get("/admin/").wsgi_request, model()
        )
        names = {name for _, options in shown for name in options["fields"]}
        if "document" in names:  # a definition as JSON, or in fields of its own
            names.add("definition")
        editable = {f.name for f in model._meta.fields if f.editable and not f.primary_key}
        assert editable - names == set(), model


def test_the_help_text_states_the_range_and_the_default(pages):
    page = pages.get("/admin/proxy/gatewaysettings/1/change/").text
    assert "From 1024 (1 KiB) to 268435456 (256 MiB); default 33554432 (32 MiB)." in page
    assert "From 0.1 to 600; default 30." in page
    assert "2147483647" not in page


@pytest.mark.parametrize(
    ("model", "fields", "admin_only"),
    [
        (GatewaySettings, GATEWAY_FIELDS, set()),
        (Upstream, UPSTREAM_FIELDS, {"key", "new_key", "remove_key"}),
        (ModelRoute, ROUTE_FIELDS, set()),
        (FormatOverride, OVERRIDE_FIELDS, set()),
        (FormatSettings, FORMAT_FIELDS, {"format"}),
        (
            ClientKey,
            KEY_FIELDS,
            {"shown_prefix", "state", "created_at", "last_used_at", "revoked_at", "replaces"},
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_form_has_exactly_the_fields_of_the_document_and_the_api(model, fields, admin_only):
    fieldsets = site.get_model_admin(model).fieldsets
    shown = [name for _, options in fieldsets for name in options["fields"]]
    assert len(shown) == len(set(shown))
    assert set(shown) == {*fields, *admin_only}
    editable = {f.name for f in model._meta.fields if f.editable and not f.primary_key}
    assert editable - {"revoked_at", "created_at", "format"} == set(fields) - {"format"}
