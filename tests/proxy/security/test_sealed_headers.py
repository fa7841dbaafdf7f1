"""Secret headers of upstreams are sealed in the database, and rows stay within their bounds."""

import importlib
import json

import pytest
from django.apps import apps
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.configuration.snapshot import load
from proxy.configuration.upstream import read_upstream
from proxy.models import FormatSettings, GatewaySettings, ModelRoute, Upstream
from proxy.models.encrypted_headers import EncryptedHeadersField, unreadable_headers
from tests.support.chat import ask, says
from tests.support.stored_exchanges import configure

CANARY = "canary-of-a-secret-header"
HEADERS = {"X-Api-Token": CANARY, "HTTP-Referer": "https://example.org"}


def stored(pk):
    with connection.cursor() as cursor:
        cursor.execute("SELECT headers FROM proxy_upstream WHERE id = %s", [pk])
        found = cursor.fetchone()[0]
    return found if isinstance(found, dict) else json.loads(found)


@pytest.fixture
def row(db):
    return Upstream.objects.create(name="behind", base_url="https://a.example.org", headers=HEADERS)


def test_a_secret_header_is_sealed_in_the_database_and_sent_as_it_is(row):
    assert stored(row.pk)["X-Api-Token"].startswith("sealed:gAAAA")
    assert stored(row.pk)["HTTP-Referer"] == "https://example.org"
    row.refresh_from_db()
    assert row.headers == HEADERS
    assert ("X-Api-Token", CANARY) in read_upstream(row).headers
    assert CANARY in read_upstream(row).secrets()


def test_saving_again_and_a_dump_of_the_tables_open_nothing(row, capsys):
    row.refresh_from_db()
    row.active = False
    row.save()
    Upstream.objects.filter(pk=row.pk).update(headers=row.headers)
    row.refresh_from_db()
    assert row.headers == HEADERS
    call_command("dumpdata", "proxy")
    dump = capsys.readouterr().out
    assert "sealed:gAAAA" in dump
    assert CANARY not in dump


def test_a_dump_is_loaded_again_with_its_secrets(row, capsys, tmp_path):
    call_command("dumpdata", "proxy.upstream")
    (tmp_path / "dump.json").write_text(capsys.readouterr().out)
    row.delete()
    call_command("loaddata", str(tmp_path / "dump.json"), verbosity=0)
    assert Upstream.objects.get().headers == HEADERS


def test_what_another_secret_sealed_is_named_and_not_lost(row, settings):
    """O9: the other upstreams go on."""
    present, settings.SECRET_KEY = settings.SECRET_KEY, "another secret of the site, long enough"
    row.refresh_from_db()
    assert unreadable_headers(row.headers) == ["X-Api-Token"]
    assert "X-Api-Token cannot be decrypted" in read_upstream(row).trouble
    row.save()
    settings.SECRET_KEY = present
    row.refresh_from_db()
    assert row.headers == HEADERS
    assert read_upstream(row).trouble == ""


def test_headers_from_before_are_sealed_by_the_migration(row):
    with connection.cursor() as cursor:
        plain = json.dumps(HEADERS)
        cursor.execute("UPDATE proxy_upstream SET headers = %s WHERE id = %s", [plain, row.pk])
    assert stored(row.pk) == HEADERS
    migration = importlib.import_module("proxy.migrations.0010_sealed_headers_and_bounds")
    migration.seal_headers(apps, None)
    assert CANARY not in str(stored(row.pk))
    row.refresh_from_db()
    assert row.headers == HEADERS


def test_what_is_no_object_is_left_alone():
    assert EncryptedHeadersField().get_prep_value(["a"]) == ["a"]
    assert unreadable_headers(["a"]) == []


def test_a_secret_of_another_gateway_stops_one_upstream_and_no_other(gateway, client, upstream):
    """O9, end to end: a header and a key that were sealed with another secret."""
    upstream.script("sealed/well", says("hello"))
    gateway.edit(
        "from django.test import override_settings\n"
        f"u = Upstream(name='foreign', base_url={upstream.url!r})\n"
        "with override_settings(SECRET_KEY='x' * 60):\n"
        "    u.store_key('sk-canary-foreign'); u.save()\n"
        f"h = Upstream(name='foreign-header', base_url={upstream.url!r}, headers={HEADERS!r})\n"
        "with override_settings(SECRET_KEY='x' * 60):\n"
        "    h.save()\n"
        "ModelRoute.objects.create(pattern='sealed/foreign', upstream=u)\n"
        "ModelRoute.objects.create(pattern='sealed/header', upstream=h)"
    )
    for model in ("sealed/foreign", "sealed/header"):
        refused = client.post("/v1/messages", json=ask(model))
        assert refused.status_code == 502
        assert refused.headers["x-athena-error"] == "upstream_misconfigured"
        assert refused.headers["x-should-retry"] == "false"
        assert "cannot be decrypted with the current ATHENA_SECRET_KEY" in refused.text
    assert client.post("/v1/messages", json=ask("sealed/well")).status_code == 200


BOUNDED = [
    (model, constraint.name, *constraint.condition.children)  # type: ignore[attr-defined]
    for model in (Upstream, GatewaySettings, FormatSettings, ModelRoute)
    for constraint in model._meta.constraints
    if constraint.name.endswith("_in_bounds")
]


@pytest.mark.django_db
@pytest.mark.parametrize(("model", "name", "least", "most"), BOUNDED)
def test_the_database_keeps_the_bounds_that_the_forms_have(model, name, least, most):
    """O2: what came past every form is refused, too; and both know the same bounds."""
    configure()
    field = least[0].removesuffix("__gte")
    row = model.objects.first()
    for outside in (least[1] - 1, most[1] + 1):
        setattr(row, field, outside)
        with pytest.raises(ValidationError) as refused:
            row.full_clean()
        assert list(refused.value.message_dict) == [field]  # said once, at the field
        with pytest.raises(IntegrityError), transaction.atomic():
            model.objects.update(**{field: outside})
    for inside in (least[1], most[1]):
        setattr(row, field, inside)
        row.full_clean()
        model.objects.update(**{field: inside})


@given(st.floats() | st.integers(), st.sampled_from(BOUNDED))
@settings(deadline=None)
def test_a_number_is_good_within_its_bounds_and_nowhere_else(number, bound):
    model, _, least, most = bound
    field = model._meta.get_field(least[0].removesuffix("__gte"))
    try:
        value = field.clean(number, model())
    except (ValidationError, OverflowError):
        assert not least[1] <= number <= most[1]
    else:
        assert least[1] <= value <= most[1]


@pytest.mark.parametrize(("model", "_", "least", "most"), BOUNDED)
def test_nan_is_within_no_bounds(model, _, least, most):
    with pytest.raises(ValidationError):
        model._meta.get_field(least[0].removesuffix("__gte")).clean(float("nan"), model())


@pytest.mark.django_db
def test_a_snapshot_has_no_sealed_value():
    configure()
    assert "sealed:" not in str([route.upstream.headers for route in load().routes])
