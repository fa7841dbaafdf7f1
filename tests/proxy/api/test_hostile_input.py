"""No request to the configuration API causes a server error."""

import json

import pytest
from django.core.cache import cache
from django.db import OperationalError, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework.throttling import SimpleRateThrottle

from formats import FORMATS
from proxy.api.configuration_serializers import (
    FormatIn,
    KeyIn,
    OverrideIn,
    RouteIn,
    SettingsIn,
    UpstreamIn,
)
from proxy.configuration.snapshot import load
from proxy.models import ClientKey, ConfigurationVersion, FormatOverride, ModelRoute, Upstream
from proxy.roles import OPERATORS
from tests.support.api_clients import staff_user, token_client
from tests.support.stored_exchanges import configure

pytestmark = pytest.mark.django_db

ENDPOINTS = [
    ("POST", "/api/upstreams/", UpstreamIn),
    ("POST", "/api/routes/", RouteIn),
    ("POST", "/api/overrides/", OverrideIn),
    ("POST", "/api/keys/", KeyIn),
    ("PATCH", "/api/upstreams/{upstream}/", UpstreamIn),
    ("PATCH", "/api/routes/{route}/", RouteIn),
    ("PATCH", "/api/overrides/{override}/", OverrideIn),
    ("PATCH", "/api/keys/{key}/", KeyIn),
    ("PATCH", "/api/formats/kimi/", FormatIn),
    ("PATCH", "/api/settings/", SettingsIn),
    ("POST", "/api/keys/{key}/revoke/", None),
    ("POST", "/api/keys/{key}/rotate/", None),
    ("POST", "/api/upstreams/{upstream}/history/1/revert/", None),
    ("DELETE", "/api/upstreams/{upstream}/", None),
]

GOOD = [
    "demo",
    "default",
    "kimi",
    "openai",
    "https://a.example/v1",
    "root",
    "SOME_API_KEY",
    "[stored]",
]
texts = st.text(max_size=12) | st.sampled_from([*GOOD, "nan", "-inf", "1e999", "2030-01-01", "\0"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=0, max_value=5000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts | st.sampled_from(["X-Token", "SECTION_BEGIN"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.fixture
def ids(settings, tmp_path, monkeypatch):
    settings.DATA_DIR = tmp_path
    configure()
    cache.clear()
    monkeypatch.setattr(SimpleRateThrottle, "allow_request", lambda *given: True)
    demo = Upstream.objects.get()
    return {
        "upstream": Upstream.objects.create(
            name="spare", base_url="http://127.0.0.1:9/v1", headers={"X-Token": "x"}
        ).pk,
        "route": ModelRoute.objects.create(pattern="spare-*", upstream=demo).pk,
        "override": FormatOverride.objects.create(pattern="spare-*", format="kimi").pk,
        "key": ClientKey.objects.first().pk,
    }


@pytest.mark.parametrize(
    ("method", "url", "serializer"), ENDPOINTS, ids=lambda part: str(part)[:50]
)
def test_no_request_body_causes_a_server_error(ids, method, url, serializer):
    operator = token_client(staff_user(OPERATORS))
    fields = sorted(serializer.Meta.fields) if serializer else ["overlap_hours"]
    bodies = st.dictionaries(st.sampled_from(fields) | texts, values, max_size=5) | values
    if serializer in (UpstreamIn, RouteIn, OverrideIn) and method == "POST":
        # Add the required fields, so that the other fields are validated too.
        whole = (
            {"name": "a", "base_url": "http://a"} if serializer is UpstreamIn else {"pattern": "a"}
        )
        whole |= {"upstream": "demo"} if serializer is RouteIn else {}
        whole |= {"format": "kimi"} if serializer is OverrideIn else {}
        optional = [name for name in fields if name not in whole]
        some = st.dictionaries(st.sampled_from(optional), values, max_size=3)
        bodies |= some.map(lambda more: whole | more)
    tags = st.none() | st.sampled_from(['"1"', "*", 'W/"1"', "x", '"', ""])

    @settings(
        max_examples=30 if serializer else 10,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(body=bodies, tag=tags)
    def check(body, tag):
        headers = {} if tag is None else {"if-match": tag}
        with transaction.atomic():
            response = operator.generic(
                method, url.format(**ids), json.dumps(body), "application/json", headers=headers
            )
            assert response.status_code < 500, response.content
            if response.status_code >= 400:
                assert response.json()["detail"]
            elif response.status_code < 300 and method != "DELETE":
                check_snapshot()
            transaction.set_rollback(True)

    check()


def check_snapshot():
    """Check that everything that was saved can be loaded."""
    snapshot = load()
    assert (
        len(snapshot.routes)
        == ModelRoute.objects.filter(active=True, upstream__active=True).count()
    )
    assert not any("is not valid" in route.upstream.trouble for route in snapshot.routes)
    assert len(snapshot.keys) == ClientKey.objects.filter(revoked_at=None).count()
    assert snapshot.formats.keys() == FORMATS.keys()


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b"[]", b"null", b'"x"', b"NaN", b"[" * 9999]
)
def test_a_body_that_is_not_an_object_is_rejected_with_a_sentence(ids, body):
    operator = token_client(staff_user(OPERATORS))
    for method, url, serializer in ENDPOINTS:
        if serializer is None or (body == b"" and method == "PATCH"):
            continue
        response = operator.generic(method, url.format(**ids), body, "application/json")
        assert response.status_code == 400, (url, body, response.content)
        assert response.json()["detail"]


def test_an_unavailable_database_is_reported_as_json(monkeypatch):
    configure()

    def refuse(cls):
        raise OperationalError("database is locked")

    monkeypatch.setattr(ConfigurationVersion, "lock", classmethod(refuse))
    given = {"pattern": "house/*", "format": "kimi"}
    operator = token_client(staff_user(OPERATORS))
    answer = operator.post("/api/overrides/", given, content_type="application/json")
    assert (answer.status_code, answer.json()) == (
        503,
        {"detail": "The database is unavailable. Try again."},
    )
