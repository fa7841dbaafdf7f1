"""The history: every change of the configuration leaves a record and makes a version."""

import pytest
from django.contrib.auth.models import User
from django.core import serializers
from django.test import RequestFactory
from simple_history.models import HistoricalRecords

from proxy.models import CONFIGURATION, ClientKey, ConfigurationVersion, FormatOverride, Upstream
from tests.support.stored_exchanges import configure

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _configured(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    configure()


def number():
    return ConfigurationVersion.objects.get().number


def test_every_change_makes_a_new_version():
    before = number()
    row = FormatOverride.objects.create(pattern="house/*", format="kimi")
    row.format = "qwen"
    row.save()
    key = row.pk
    row.delete()
    records = FormatOverride.history.filter(id=key).order_by("history_id")
    assert [(r.history_type, r.format, r.version) for r in records] == [
        ("+", "kimi", before + 1),
        ("~", "qwen", before + 2),
        ("-", "qwen", before + 3),
    ]
    assert number() == before + 3


def test_loading_a_fixture_makes_a_new_version():
    row = FormatOverride.objects.create(pattern="house/*", format="kimi")
    before, text = number(), serializers.serialize("json", [row])
    for loaded in serializers.deserialize("json", text):
        loaded.save()
    assert number() == before + 1


def test_the_history_has_no_secrets():
    upstream = Upstream(name="mine", base_url="http://127.0.0.1:9/v1")
    upstream.store_key("sk-canary-of-the-history")
    upstream.save()
    key = ClientKey(label="mine")
    key.adopt("sk-athena-canary-of-the-history")
    key.save()
    for record in (upstream.history.get(), key.history.get()):
        held = {field.attname: getattr(record, field.attname) for field in record._meta.fields}
        assert not {"sealed_key", "digest"} & held.keys()
        assert key.digest not in map(str, held.values())


def test_a_record_names_its_author():
    person = User.objects.create(username="olga")
    request = RequestFactory().get("/")
    request.user = person
    HistoricalRecords.context.request = request
    try:
        row = FormatOverride.objects.create(pattern="house/*", format="kimi")
    finally:
        del HistoricalRecords.context.request
    assert row.history.get().history_user == person


def test_every_configuration_table_has_a_history():
    for model in CONFIGURATION:
        recorded = set(model.history.values_list("id", flat=True))
        assert recorded == set(model.objects.values_list("pk", flat=True)), model
