"""The one way to change configuration rows: lock, version check, validation, save, record."""

import re
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from django.db.models import ProtectedError

import proxy
from proxy.configuration.editing import (
    EditConflict,
    check_version,
    delete,
    editing,
    revert,
    save,
    store,
)
from proxy.configuration.history import newest, version_of
from proxy.models import FormatOverride, GatewaySettings, ModelRoute, Upstream
from tests.support.stored_exchanges import configure

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _configured(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    configure()


@pytest.fixture
def override():
    return FormatOverride.objects.create(pattern="house/*", format="kimi")


def test_a_saved_row_is_validated_and_recorded_with_its_reason(override):
    override.format = "qwen"
    save(override, reason="a better format")
    assert newest(override).history_change_reason == "a better format"
    override.format = "klingon"
    with pytest.raises(ValidationError):
        save(override)
    override.refresh_from_db()
    assert override.format == "qwen"


def test_only_the_given_fields_are_written(override):
    FormatOverride.objects.filter(pk=override.pk).update(note="by another process")
    override.priority, override.note = 7, "not to be written"
    store(override, fields=["priority"])
    override.refresh_from_db()
    assert (override.priority, override.note) == (7, "by another process")


def test_a_row_follows_the_environment_until_an_operator_saves_it():
    route = ModelRoute.objects.get(pattern="default")
    store(route, by_operator=False)
    route.refresh_from_db()
    assert route.from_environment
    store(route, fields=["priority"])
    route.refresh_from_db()
    assert not route.from_environment


def test_a_change_that_the_editor_has_not_seen_is_a_conflict(override):
    seen = version_of(override)
    check_version(override, {seen})
    override.priority = 7
    save(override)
    with pytest.raises(EditConflict) as caught:
        check_version(override, {seen})
    assert caught.value.version == version_of(override) > seen


def test_a_dry_run_saves_nothing(override):
    with editing(dry_run=True):
        override.priority = 7
        save(override)
        delete(FormatOverride.objects.get(pk=override.pk))
    override.refresh_from_db()
    assert override.priority == 100


def test_a_row_that_others_need_cannot_be_deleted():
    with pytest.raises(ProtectedError):
        delete(Upstream.objects.get(name="demo"))


def test_neither_an_edit_nor_a_revert_disables_the_default_route():
    route = GatewaySettings.objects.get().default_route
    GatewaySettings.objects.update(default_route=None)
    route.active = False
    save(route)
    inactive = newest(route)
    route.active = True
    save(route)
    GatewaySettings.objects.update(default_route=route)
    route.active = False
    with pytest.raises(ValidationError, match="This is the default route"):
        save(route)
    with pytest.raises(ValidationError, match="This is the default route"):
        revert(inactive)


@pytest.mark.parametrize(
    "pattern",
    [r"ConfigurationVersion\.lock\(", r"\.from_environment = ", r"\._change_reason = "],
)
def test_only_this_module_locks_and_marks_rows(pattern):
    root = Path(proxy.__file__).parent
    files = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(pattern, path.read_text())
    }
    # A model notes that its key was changed, because the history does not record keys.
    assert files - {"models/upstreams.py"} == {"configuration/editing.py"}
