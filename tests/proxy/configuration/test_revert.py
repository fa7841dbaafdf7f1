"""Differences between records of the history, and reverting to them."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from proxy.configuration.editing import revert
from proxy.configuration.history import (
    differences,
    newest,
    newest_of_all,
    previous_record,
    records,
    restored_row,
    version_of,
    with_version,
)
from proxy.models import (
    ClientKey,
    ConfigurationVersion,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Upstream,
)
from tests.support.stored_exchanges import configure

pytestmark = pytest.mark.django_db
CANARY = "canary-of-the-changes-1234"


@pytest.fixture(autouse=True)
def _configured(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    configure()


def make_upstream(**fields):
    row = Upstream(name="mine", base_url="https://mine.example/v1", **fields)
    row.store_key(CANARY)
    row.save()
    return row


def change_row(row, **fields):
    for name, value in fields.items():
        setattr(row, name, value)
    row.save()
    return newest(row)


def field_changes(record):
    return {c.name: (c.old, c.new) for c in differences(previous_record(record), record)}


def test_a_row_is_at_the_version_that_last_changed_it():
    first = FormatOverride.objects.create(pattern="a", format="kimi")
    second = FormatOverride.objects.create(pattern="b", format="kimi")
    change_row(first, priority=7)
    number = ConfigurationVersion.objects.get().number
    assert (version_of(first), version_of(second)) == (number, number - 1)
    assert newest_of_all() == newest(first)


def test_a_list_of_rows_has_their_versions(django_assert_num_queries):
    rows = [FormatOverride.objects.create(pattern=f"m{n}", format="kimi") for n in range(5)]
    change_row(rows[2], priority=7)
    with django_assert_num_queries(1):
        found = {row.pk: row.version for row in with_version(FormatOverride.objects.all())}
    assert found == {row.pk: version_of(row) for row in rows}


def test_a_row_without_a_record_is_at_version_zero():
    row = FormatOverride.objects.create(pattern="a", format="kimi")
    records(row).delete()
    assert (version_of(row), newest(row)) == (0, None)
    assert with_version(FormatOverride.objects.all()).get().version == 0


def test_differences_are_displayed_as_text():
    one, two = (
        ModelRoute.objects.get(pattern="default"),
        ModelRoute.objects.get(pattern="claude-*opus*"),
    )
    change_row(one, fallback=two, active=False, max_tokens=100, listed_as="x")
    assert field_changes(newest(one)) == {
        "fallback": ("–", "claude-*opus*"),
        "active": ("yes", "no"),
        "max_tokens": ("–", "100"),
        "listed_as": ("–", "x"),
    }
    key = ClientKey.objects.first()
    change_row(
        key,
        owner=None,
        allowed_models=["b", "a"],
        expires_at=datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC),
    )
    assert field_changes(newest(key)) == {
        "owner": ("root", "–"),
        "allowed_models": ("–", '["b","a"]'),
        "expires_at": ("–", "2027-01-02T03:04:05Z"),
    }
    (change,) = differences(newest(one), change_row(one, max_tokens=200))
    assert (change.label, change.old, change.new) == ("max tokens", "100", "200")


def test_a_deleted_row_is_displayed_by_its_id():
    other = make_upstream()
    number, route = other.pk, ModelRoute.objects.get(pattern="default")
    change_row(route, upstream=other)
    change_row(route, upstream=Upstream.objects.get(name="demo"))
    other.delete()
    assert field_changes(newest(route)) == {"upstream": (f"deleted #{number}", "demo")}


def test_the_record_of_a_created_or_deleted_row_lists_all_fields():
    row = FormatOverride.objects.create(pattern="house/*", format="kimi")
    created = newest(row)
    assert field_changes(created) == {
        "pattern": ("–", "house/*"),
        "format": ("–", "kimi"),
        "priority": ("–", "100"),
        "active": ("–", "yes"),
    }
    row.delete()
    deleted = records(FormatOverride).first()
    assert field_changes(deleted) == {
        name: (new, old) for name, (old, new) in field_changes(created).items()
    }


def test_a_record_has_no_secret_header():
    row = make_upstream(headers={"X-House-Token": CANARY, "X-Title": "Athena"})
    change_row(row, headers={"X-House-Token": f"{CANARY}2", "X-Title": "Athena 2"})
    for record in records(row):
        assert CANARY not in str(vars(record))
        assert CANARY not in str(differences(previous_record(record), record))
    assert (
        field_changes(newest(row))["headers"][1]
        == '{"X-House-Token":"[stored]","X-Title":"Athena 2"}'
    )
    row.refresh_from_db()
    assert row.headers["X-House-Token"] == f"{CANARY}2"


def test_a_revert_is_recorded_as_a_new_change():
    row = FormatOverride.objects.create(pattern="house/*", format="kimi")
    old = newest(row)
    change_row(row, format="qwen", note="a slip")
    revert(old)
    row.refresh_from_db()
    assert (row.format, row.note) == ("kimi", "")
    assert newest(row).history_change_reason == f"back to version {old.version}"
    assert version_of(row) > old.version


def test_reverting_a_deleted_row_creates_it_with_its_id():
    row = FormatOverride.objects.create(pattern="house/*", format="kimi")
    number = row.pk
    row.delete()
    revert(records(FormatOverride).first())
    assert FormatOverride.objects.get(pattern="house/*").pk == number


def test_a_revert_keeps_the_last_use_of_a_key(monkeypatch):
    row = ClientKey.objects.first()
    restored = restored_row(newest(row))
    ClientKey.objects.update(last_used_at=timezone.now())  # by a request, in between
    monkeypatch.setattr("proxy.configuration.editing.restored_row", lambda record: restored)
    revert(newest(row))
    row.refresh_from_db()
    assert row.last_used_at is not None


def test_a_long_history_needs_few_queries(django_assert_max_num_queries):
    route, others = (
        ModelRoute.objects.get(pattern="default"),
        [make_upstream(), Upstream.objects.get(name="demo")],
    )
    for number in range(10):
        change_row(route, upstream=others[number % 2])
    with django_assert_max_num_queries(3):
        found = list(records(route))
        changes = [differences(old, new) for new, old in pairwise(found)]
    assert changes[0][0].old == "mine"


def test_a_revert_keeps_the_current_secrets():
    row = make_upstream(headers={"X-House-Token": "old", "X-Title": "a"})
    old = newest(row)
    row.store_key("sk-another-key-altogether")
    change_row(row, headers={"x-house-token": "new", "X-Title": "b"}, name="renamed")
    back = revert(old)
    assert (back.name, back.read_key()) == ("mine", "sk-another-key-altogether")
    assert back.headers == {"X-House-Token": "new", "X-Title": "a"}


def test_a_revert_does_not_restore_removed_secrets():
    row = make_upstream(headers={"X-House-Token": "old", "X-Title": "a"})
    change_row(row, headers={})
    assert revert(previous_record(newest(row))).headers == {"X-Title": "a"}
    row.delete()
    back = revert(records(Upstream).filter(name="mine").last())
    assert (back.headers, back.read_key()) == ({"X-Title": "a"}, "")


def test_a_revert_does_not_replace_a_stored_key_by_a_variable():
    row = Upstream.objects.create(
        name="mine", base_url="https://a.example/v1", key_variable="X_API_KEY"
    )
    old = newest(row)
    row.store_key(CANARY)
    row.save()
    with pytest.raises(ValidationError, match="not both"):
        revert(old)


def test_a_revoked_key_stays_revoked():
    row = ClientKey(label="mine")
    row.adopt("sk-athena-first-of-two")
    row.save()
    old = newest(row)
    row.adopt("sk-athena-second-of-two")
    change_row(row, label="renamed", revoked_at=timezone.now())
    back = revert(old)
    assert (back.label, back.digest, back.prefix) == ("mine", row.digest, row.prefix)
    assert back.revoked_at is not None
    row.delete()
    with pytest.raises(ValidationError, match="secret was not kept"):
        revert(old)


def test_a_reverted_row_stops_following_the_environment():
    route = ModelRoute.objects.get(pattern="default")
    assert route.from_environment
    assert not revert(newest(route)).from_environment


def test_a_revert_that_is_not_valid_any_more_is_rejected():
    other = make_upstream()
    route = ModelRoute.objects.create(pattern="mine-*", upstream=other)
    old = newest(route)
    change_row(route, upstream=Upstream.objects.get(name="demo"), pattern="yours-*")
    ModelRoute.objects.create(pattern="mine-*", upstream=Upstream.objects.get(name="demo"))
    with pytest.raises(ValidationError, match="already exists"):
        revert(old)
    ModelRoute.objects.filter(pattern="mine-*").delete()
    other.delete()
    with pytest.raises(ValidationError, match="upstream instance with id"):
        revert(old)
    settings = GatewaySettings.objects.get()
    old = newest(settings)
    type(old).objects.filter(pk=old.pk).update(ping_after=0)
    old.refresh_from_db()
    with pytest.raises(ValidationError):
        revert(old)


def test_rows_of_every_table_can_be_reverted():
    for model in (Upstream, ModelRoute, FormatSettings, ClientKey, GatewaySettings):
        for row in model.objects.all():
            assert revert(newest(row)).pk == row.pk
