"""W4: an operator cannot have a stored secret delivered to a server of their own.

A new origin of an upstream needs its secrets entered again, through every way of changing it.
"""

import json
from uuid import uuid4

import pytest
import yaml
from django.core.exceptions import ValidationError

from proxy.configuration.bootstrap import bootstrap
from proxy.configuration.document.export import export
from proxy.configuration.document.import_document import run_import
from proxy.configuration.document.problems import InvalidDocument
from proxy.configuration.editing import revert, save
from proxy.configuration.history import records
from proxy.configuration.snapshot import load
from proxy.configuration.upstream import DEMO_NAME, DEMO_URL, demo_key, read_upstream
from proxy.database.clock import clock
from proxy.models import ModelRoute, Upstream
from proxy.roles import OPERATORS
from tests.support.api_clients import send_json, staff_user, token_client
from tests.support.staff_pages import UPSTREAM_FORM, operator_client
from tests.support.stored_exchanges import configure

pytestmark = pytest.mark.django_db
KEY, HEADER = "sk-canary-of-a-stored-key-1", "canary-of-a-stored-header-2"
URL = "https://models.example/v1"
OTHER_SERVERS = [
    "https://evil.example/v1",
    "http://models.example/v1",
    "https://models.example:8443/v1",
    "https://models.example.evil.example/v1",
    "https://eu.models.example/v1",
    DEMO_URL,
]
SAME_SERVER = [
    "https://models.example/v2",
    "https://MODELS.example:443/v1",
    "HTTPS://models.example/deployments/a/chat/completions",
]


@pytest.fixture(autouse=True)
def row(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    configure()
    row = Upstream(name="mine", base_url=URL, headers={"x-team": "a", "X-Team-Token": HEADER})
    row.store_key(KEY)
    save(row)
    return Upstream.objects.get(pk=row.pk)


def by_editing(row, url, **fields):
    for name, value in {"base_url": url, **fields}.items():
        setattr(row, name, value)
    try:
        save(row)
    except ValidationError as error:
        return str(error)
    return ""


def by_form(row, url, **fields):
    headers = '{"x-team": "a", "X-Team-Token": "[stored]"}'
    form = {**UPSTREAM_FORM, "name": "mine", "base_url": url, "headers": headers, **fields}
    response = operator_client(uuid4().hex).post(f"/admin/proxy/upstream/{row.pk}/change/", form)
    return "" if response.status_code == 302 else response.content.decode()


def by_api(row, url, **fields):
    body = {"base_url": url, **fields}
    client = token_client(staff_user(OPERATORS, username=uuid4().hex))
    response = send_json(client, "PATCH", f"/api/upstreams/{row.pk}/", body)
    assert response.status_code in (200, 400)
    return "" if response.status_code == 200 else response.content.decode()


def by_import(row, url, **fields):
    document = yaml.safe_load(export()[0])
    (entry,) = (entry for entry in document["upstreams"] if entry["name"] == "mine")
    entry.update({"base_url": url, **fields})
    try:
        run_import(yaml.safe_dump(document), now=clock.now(), reason="")
    except InvalidDocument as error:
        return " ".join(map(str, error.problems))
    return ""


def by_revert(row, url):
    """Undo the change that brought the upstream to its present server."""
    record = records(row).first()
    record.base_url = url
    record.save()
    try:
        revert(record)
    except ValidationError as error:
        return str(error)
    return ""


WAYS = [by_editing, by_form, by_api, by_import, by_revert]


def secrets_sent(row):
    return set(read_upstream(Upstream.objects.get(pk=row.pk)).secrets())


@pytest.mark.parametrize("change", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("url", OTHER_SERVERS)
def test_stored_secrets_are_not_sent_to_another_server(row, change, url):
    """W4"""
    message = change(row, url)
    assert "another server" in message
    assert "the key, X-Team-Token" in message
    assert KEY not in message
    assert HEADER not in message
    assert Upstream.objects.get(pk=row.pk).base_url == URL
    assert secrets_sent(row) == {KEY, HEADER}


@pytest.mark.parametrize("change", [by_editing, by_form, by_api], ids=lambda way: way.__name__)
def test_an_encrypted_value_from_a_dump_cannot_be_entered_as_a_header(row, change):
    """W4: the gateway would decrypt it, and send the secret to the operator's server."""
    taken = f"sealed:{row.sealed_key}"
    other = Upstream(name="evil", base_url="https://evil.example/v1")
    save(other)
    headers = {"X-Token": taken}
    is_form = change is by_form
    message = change(
        other,
        other.base_url,
        **({"name": "evil"} if is_form else {}),
        headers=json.dumps(headers) if is_form else headers,
    )
    assert KEY not in secrets_sent(other)
    assert "encrypted values start with it" in message


@pytest.mark.parametrize("change", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("url", SAME_SERVER)
def test_another_path_of_the_same_server_keeps_the_secrets(row, change, url):
    assert change(row, url) == ""
    assert Upstream.objects.get(pk=row.pk).base_url == url
    assert secrets_sent(row) == {KEY, HEADER}


@pytest.mark.parametrize("url", OTHER_SERVERS[:3])
def test_secrets_that_are_entered_again_are_accepted(row, url):
    """Also if they have the same values as before."""
    entered = {"x-team": "a", "X-Team-Token": HEADER}
    assert "the key" in by_api(row, url, headers=entered)
    assert "X-Team-Token" in by_api(row, url, key=KEY)
    assert by_api(row, url, headers=entered, key=KEY) == ""
    assert secrets_sent(row) == {KEY, HEADER}
    fields = {"headers": '{"X-Team-Token": "another"}', "new_key": "sk-another-key"}
    assert by_form(row, "https://third.example", **fields) == ""
    assert secrets_sent(row) == {"sk-another-key", "another"}


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (by_api, {"key": "", "headers": {}}),
        (by_form, {"remove_key": "on", "headers": "{}"}),
        (by_import, {"key": None, "headers": {}}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_removing_the_secrets_allows_another_server(row, change, fields):
    assert change(row, OTHER_SERVERS[0], **fields) == ""
    assert secrets_sent(row) == set()


@pytest.mark.parametrize("variable", ["MODELS_API_KEY", ""])
def test_a_variable_instead_of_the_key_does_not_take_the_headers_along(row, variable):
    """W4: `key_variable` together with the address."""
    message = by_api(row, OTHER_SERVERS[0], key_variable=variable)
    assert "X-Team-Token" in message
    assert ("the key" in message) == (not variable)


def test_an_upstream_that_is_deleted_and_comes_back_has_no_secrets(row):
    document = export()[0].replace(URL, OTHER_SERVERS[0])
    Upstream.objects.get(pk=row.pk).delete()
    run_import(document, now=clock.now(), reason="")
    (new,) = Upstream.objects.filter(name="mine")
    assert secrets_sent(new) == set()
    new.delete()
    restored = revert(records(row).filter(history_type="+").first())
    assert secrets_sent(restored) == set()


def test_the_key_of_the_demo_does_not_leave_the_gateway(row):
    demo = Upstream.objects.get(name="demo")
    assert "the gateway's own demo" in by_api(demo, OTHER_SERVERS[0])
    assert secrets_sent(demo) == {demo_key()}


def test_the_demo_stays_on_this_gateway_with_its_own_key(row):
    """An operator's key for another server is rejected: the demo would not use it."""
    demo = Upstream.objects.get(name="demo")
    assert "the gateway's own demo" in by_api(demo, OTHER_SERVERS[0], key=KEY)
    assert read_upstream(Upstream.objects.get(pk=demo.pk)).url.host == "127.0.0.1"
    assert secrets_sent(demo) == {demo_key()}


OWN = [
    "ATHENA_CLIENT_KEY",
    "ATHENA_SECRET_KEY",
    "ATHENA_METRICS_TOKEN",
    "ATHENA_FUTURE_API_KEY",
    "DATABASE_URL",
    "REDIS_URL",
    "PGPASSWORD",
    "SECRET_KEY",
    "DJANGO_SECRET_KEY",
]
UNLISTED = ["AWS_SECRET_ACCESS_KEY", "HOME", "API_KEY_OF_MINE", "house_api_key", "X_API_KEY_2"]


@pytest.mark.parametrize("name", [*OWN, *UNLISTED])
@pytest.mark.parametrize("allowed", [("*_API_KEY",), ("*",)])
def test_other_variables_are_refused_and_never_read(row, name, allowed, settings, monkeypatch):
    """W4: also one that was stored before the rule."""
    if allowed == ("*",) and name in UNLISTED:
        pytest.skip("the setting allows this name")
    settings.KEY_VARIABLES = allowed
    monkeypatch.setenv(name, "canary-of-the-environment")
    headers = '{"X-Team-Token": "[stored]"}'
    assert name in by_form(row, URL, key_variable=name, headers=headers)
    assert name in by_api(row, URL, key_variable=name)
    assert by_import(row, URL, key=f"${name}")
    assert name in by_editing(
        Upstream.objects.get(pk=row.pk), URL, sealed_key="", key_variable=name
    )
    Upstream.objects.filter(pk=row.pk).update(sealed_key="", key_variable=name)
    ModelRoute.objects.create(pattern="x", upstream=row)
    (loaded,) = (route.upstream for route in load().routes if route.pattern == "x")
    assert f"the environment variable {name}" in loaded.trouble
    assert loaded.secrets() == (HEADER,)


@pytest.mark.parametrize(
    ("allowed", "name"),
    [
        (("*_API_KEY",), "MODELS_API_KEY"),
        (("*_API_KEY",), "ATHENA_ANTHROPIC_API_KEY"),
        (("*_API_KEY", "HOUSE_TOKEN"), "HOUSE_TOKEN"),
    ],
)
def test_listed_variables_are_read(row, allowed, name, settings, monkeypatch):
    settings.KEY_VARIABLES = allowed
    monkeypatch.setenv(name, "sk-of-the-environment")
    assert by_api(row, URL, key_variable=name) == ""
    assert "sk-of-the-environment" in secrets_sent(row)


def test_a_document_of_an_older_gateway_may_have_another_address_of_the_demo(row):
    """W4, N15: every gateway sends the requests of the demo to its own, whatever the address."""
    bootstrap({})
    document = yaml.safe_load(export()[0])
    (demo,) = (entry for entry in document["upstreams"] if entry["name"] == DEMO_NAME)
    demo["base_url"] = "http://127.0.0.1:8000/demo/v1"
    run_import(yaml.safe_dump(document), now=clock.now(), reason="")
    demo = Upstream.objects.get(name=DEMO_NAME)
    assert secrets_sent(demo) == {demo_key()}
    demo.name = "mine-too"
    with pytest.raises(ValidationError, match="another server"):
        save(demo)


def test_a_stored_key_does_not_reach_another_server_by_way_of_the_name_of_the_demo(row):
    """W4: under that name, the address is not used; under the next name it would be."""
    Upstream.objects.filter(name=DEMO_NAME).update(name="former-demo")
    row.base_url = f"{URL.removesuffix('/v1')}/demo/v1"
    save(row)  # the same server
    row.name = DEMO_NAME
    with pytest.raises(ValidationError, match="another server"):
        save(row)
