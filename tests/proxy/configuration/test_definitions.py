"""Formats that operators define: where they count, and what an edit must not break."""

import json

import pytest
from django.core.exceptions import ValidationError
from django.db.models import ProtectedError

from proxy.configuration import editing
from proxy.configuration.diagnostics import diagnose
from proxy.configuration.document.export import export
from proxy.configuration.document.import_document import run_import
from proxy.configuration.document.problems import InvalidDocument
from proxy.configuration.explain import explain
from proxy.configuration.history import records
from proxy.configuration.routing import resolve
from proxy.configuration.snapshot import load
from proxy.models import FormatDefinition, FormatOverride, FormatSettings
from tests.support.muse import MODEL, MUSE, muse
from tests.support.stored_exchanges import NOW, configure

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _configuration(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    configure()


def define(name="muse", definition=MUSE, **fields):
    row = FormatDefinition(name=name, definition=definition, **fields)
    editing.save(row)
    return row


def override(pattern=MODEL, name="muse", **fields):
    row = FormatOverride(pattern=pattern, format=name, **fields)
    editing.save(row)
    return row


def format_of(model):
    return resolve(load(), model).format


def problem_of(change):
    with pytest.raises(ValidationError) as caught:
        change()
    return " ".join(caught.value.messages)


@pytest.mark.parametrize(
    "name", ["Muse", "-muse", "", "a" * 21, "kimi", "standard", "unknown", "auto"]
)
def test_a_name_that_is_taken_or_malformed_is_refused(name):
    assert problem_of(lambda: define(name))


def test_each_problem_of_a_definition_names_its_place():
    wrong = muse(grammars=[{"kind": "envelope", "markers": {"BLOCK": ["a"], "END": ["</x>"]}}])
    problem = problem_of(lambda: define(definition=wrong))
    assert "grammars.0.markers.BLOCK" in problem
    assert "grammars.0.markers.END" in problem


def test_a_definition_gets_settings_which_go_with_it():
    row = define()
    assert FormatSettings.objects.filter(format="muse").exists()
    editing.delete(row)
    assert not FormatSettings.objects.filter(format="muse").exists()


def test_an_override_takes_a_definition_and_its_settings_apply():
    define()
    override()
    settings = FormatSettings.objects.get(format="muse")
    settings.buffer_limit, settings.strict, settings.split_thinking = 4096, True, "marked"
    editing.save(settings)
    route = resolve(load(), MODEL)
    assert route.format == ("muse", "override")
    assert json.loads(route.definition) == MUSE
    assert (route.limits.held_chars, route.strict, route.split_thinking) == (4096, True, "marked")


def test_an_override_comes_first_then_the_operators_patterns_then_built_in_detection():
    define("by-pattern", muse(detect={"patterns": ["moonshotai/*", "acme/*"]}))
    assert format_of("moonshotai/kimi-k2") == ("by-pattern", "definition")
    assert format_of("qwen/qwen3") == ("qwen", "detection")
    override("acme/*", "qwen")
    assert format_of(MODEL) == ("qwen", "override")
    explanation = explain(load(), MODEL)
    assert ("detection pattern", "by-pattern") in [
        (f.label, f.value) for f in explanation.overruled
    ]
    facts = {fact.label: fact for fact in explain(load(), "moonshotai/kimi-k2").facts}
    assert facts["format"].origin == "a detection pattern of the format by-pattern"
    assert facts["format"].row == FormatDefinition.objects.get()


def test_a_format_that_an_override_uses_is_neither_deleted_nor_disabled():
    row = define()
    used = override()
    with pytest.raises(ProtectedError) as caught:
        editing.delete(row)
    assert caught.value.protected_objects == {used}
    row.active = False
    assert f"{MODEL} → muse" in problem_of(lambda: editing.save(row))
    used.active = False
    editing.save(used)
    editing.save(row)
    used.active = True
    assert "is not active" in problem_of(lambda: editing.save(used))


def test_an_override_to_a_format_that_does_not_exist_is_refused_and_diagnosed():
    assert "does not exist" in problem_of(lambda: override(name="nothing"))
    FormatOverride.objects.create(pattern="stale", format="nothing")
    assert load().overrides == ()
    assert any("'nothing' does not exist" in found.message for found in diagnose(NOW))


def test_a_format_cannot_be_renamed():
    row = define()
    row.name = "other"
    assert "cannot be renamed" in problem_of(lambda: editing.save(row))


def test_a_deleted_definition_comes_back_with_a_revert():
    row = define()
    version = records(row).first().version
    editing.delete(row)
    editing.revert(records(FormatDefinition).get(version=version))
    assert FormatDefinition.objects.get().definition == MUSE
    assert FormatSettings.objects.filter(format="muse").exists()


def test_an_invalid_row_stops_no_other():
    define()
    FormatDefinition.objects.create(name="broken", definition={"grammars": 7})
    assert list(load().definitions) == ["muse"]


def test_the_document_carries_definitions_there_and_back():
    define(note="a test")
    override()
    text, _ = export()
    override_row = FormatOverride.objects.get()
    editing.delete(override_row)
    editing.delete(FormatDefinition.objects.get())
    run_import(text, now=NOW, reason="")
    assert FormatDefinition.objects.get().definition == MUSE
    assert format_of(MODEL) == ("muse", "override")
    assert export()[0] == text


def test_a_document_cannot_leave_an_override_without_its_format():
    define()
    override()
    for text, problem in (
        ("athena: 1\ndefinitions: []\n", "is missing"),
        (
            "athena: 1\ndefinitions:\n- name: muse\n  active: false\n"
            f"  definition: {json.dumps(MUSE)}\n",
            "is not active",
        ),
    ):
        with pytest.raises(InvalidDocument) as caught:
            run_import(text, now=NOW, reason="")
        (found,) = caught.value.problems
        assert f"'muse' {problem}, but the override '{MODEL}' needs it" in str(found)
    run_import("athena: 1\ndefinitions: []\noverrides: []\n", now=NOW, reason="")
    assert not FormatDefinition.objects.exists()


def test_problems_in_a_document_name_the_row_and_the_place_in_the_definition():
    text = "athena: 1\ndefinitions:\n- name: muse\n  definition:\n    grammars: []\n"
    with pytest.raises(InvalidDocument) as caught:
        run_import(text, now=NOW, reason="")
    assert "definitions[0].definition: grammars" in str(caught.value.problems[0])
