"""The form in which operators define formats: fields, JSON, copies, trials and roles."""

import json
import re
from functools import cache
from html import unescape

import pytest
from django.test import Client

from formats import BUILT_IN_DEFINITIONS, GRAMMAR_KINDS
from proxy.admin.definition_fields import (
    KIND_LABELS,
    OPTION_TEXTS,
    ROLE_TEXTS,
    document_of,
    field_of,
    fields_of,
    shows_all,
    values_of,
)
from proxy.models import FormatDefinition, FormatOverride, ModelRoute, Upstream
from proxy.roles import OPERATORS, SUPPORT
from tests.support.muse import MODEL, MUSE, answer, muse
from tests.support.staff_pages import HOSTILE, get, log_in, text_of
from tests.support.stored_exchanges import configure, stored_exchange

ADD = "/admin/proxy/formatdefinition/add/"
LIST = "/admin/proxy/formatdefinition/"


@pytest.fixture
def pages(db, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    configure()

    @cache
    def for_roles(*roles):
        client = Client()
        log_in(client, *roles)
        return client

    return for_roles


def form(document=MUSE, **fields):
    return {"name": "muse", "note": "", "active": "on", **values_of(document), **fields}


@pytest.mark.parametrize("name", BUILT_IN_DEFINITIONS)
def test_the_fields_show_all_of_every_built_in_format(name):
    assert shows_all(BUILT_IN_DEFINITIONS[name])


def test_every_kind_role_and_option_is_explained():
    assert KIND_LABELS.keys() == GRAMMAR_KINDS.keys()
    assert ROLE_TEXTS.keys() == {role for kind in GRAMMAR_KINDS.values() for role in kind.roles}
    assert OPTION_TEXTS.keys() == {name for kind in GRAMMAR_KINDS.values() for name in kind.options}


@pytest.mark.parametrize("document", [None, [], {"grammars": 7}, muse(unknown=1), muse(sample=3)])
def test_what_the_fields_cannot_show_is_not_shown_in_part(document):
    assert not shows_all(document)


def test_a_problem_is_shown_at_its_field():
    fields = fields_of(MUSE)
    for path, name in (
        ("grammars.0.markers.BLOCK", "grammars-0-markers-BLOCK"),
        ("grammars.0.markers.BLOCK.1", "grammars-0-markers-BLOCK"),
        ("grammars.0.markers", "grammars-0-markers-BLOCK"),
        ("grammars.0.separator", "grammars-0-separator"),
        ("detect.patterns.0", "detect-patterns"),
        ("sample", "sample"),
        ("nowhere", None),
        ("", None),
    ):
        assert field_of(path, fields) == name


def test_line_breaks_of_browsers_and_empty_lines_are_dropped():
    values = form() | {"grammars-0-markers-BLOCK": "<|do|>\r\n\r\n <|act|> ", "sample": "a\r\nb"}
    document = document_of(values)
    assert document["grammars"][0]["markers"]["BLOCK"] == ["<|do|>", "<|act|>"]
    assert document["sample"] == "a\nb"


def test_an_operator_copies_a_format_and_changes_two_markers(pages):
    client = pages(OPERATORS)
    assert f"{ADD}?copy=nemotron" in text_of(get(client, LIST))
    page = text_of(get(client, f"{ADD}?copy=granite"))
    assert "&lt;|tool_call|&gt;" in page
    copied = BUILT_IN_DEFINITIONS["granite"]
    changed = form(copied) | {
        "grammars-0-markers-BLOCK": "<|do|>",
        "grammars-0-markers-BLOCK_END": "<|done|>",
    }
    assert client.post(ADD, changed).status_code == 302
    row = FormatDefinition.objects.get()
    assert row.definition["grammars"][0]["markers"]["BLOCK"] == ["<|do|>"]
    assert row.definition["turn_markers"] == list(copied["turn_markers"])
    assert row.history.get().history_user is not None
    page = text_of(get(client, f"{LIST}{row.pk}/change/"))
    assert "&lt;|do|&gt;" in page


def test_problems_are_shown_at_their_fields_and_nothing_is_saved(pages):
    client = pages(OPERATORS)
    page = text_of(client.post(ADD, form() | {"grammars-0-markers-BLOCK": "a"}))
    block = page.split("field-grammars-0-markers-BLOCK")[1].split("field-grammars-0-markers-")[0]
    assert "errorlist" in block
    assert not FormatDefinition.objects.exists()


def test_grammars_are_added_and_removed_without_saving(pages):
    client = pages(OPERATORS)
    page = text_of(client.post(ADD, form() | {"_add_grammar": "1", "new_kind": "pairs"}))
    assert 'name="grammars-1-markers-KEY"' in page
    assert "&lt;|do|&gt;" in page
    two = muse(grammars=[*MUSE["grammars"], BUILT_IN_DEFINITIONS["glm"]["grammars"][0]])
    page = text_of(client.post(ADD, form(two) | {"_remove_grammar": "0"}))
    assert 'name="grammars-0-markers-KEY"' in page
    assert 'name="grammars-1-kind"' not in page
    assert not FormatDefinition.objects.exists()


def test_a_definition_can_be_edited_as_json_and_back(pages):
    client = pages(OPERATORS)
    page = text_of(client.post(ADD, form() | {"_as_json": "1"}))
    shown = unescape(re.search(r'name="document"[^>]*>\n?(.*?)</textarea>', page, re.DOTALL)[1])
    assert json.loads(shown) == MUSE
    own = {"name": "muse", "note": "", "active": "on"}
    page = text_of(client.post(ADD, own | {"document": shown, "_as_fields": "1"}))
    assert 'name="grammars-0-markers-BLOCK"' in page
    page = text_of(client.post(ADD, own | {"document": "{", "_as_fields": "1"}))
    assert "The fields cannot show all of this definition" in page
    page = text_of(client.post(ADD, own | {"document": "{"}))
    assert "This is not JSON" in page
    page = text_of(client.post(ADD, own | {"document": '{"grammars": []}'}))
    assert "grammars" in page.split("errorlist")[1]
    assert client.post(ADD, own | {"document": shown}).status_code == 302
    assert FormatDefinition.objects.get().definition == MUSE


@pytest.mark.parametrize(
    "button", ["_add_grammar", "_remove_grammar", "_as_json", "_as_fields", "_try"]
)
@pytest.mark.parametrize("sent", ["", "[]", '{"grammars": [[]]}', "[" * 5000, "\0", HOSTILE])
def test_any_text_for_a_definition_is_answered(pages, button, sent):
    client = pages(OPERATORS)
    values = {"name": HOSTILE, "seen": "x", button: "9" * 5000, "new_kind": HOSTILE}
    for name in ("document", "grammars-0-kind", "try_text", "try_tools"):
        page = text_of(client.post(ADD, values | {name: sent}))
        assert "<script>window" not in page


def test_a_sample_and_a_pasted_text_are_tried_without_saving(pages):
    client = pages(OPERATORS)
    page = text_of(client.post(ADD, form() | {"_try": "1"}))
    assert "What Athena decoded" in page
    assert "get_tide" in page.split('id="result"')[1]
    page = text_of(client.post(ADD, form() | {"_try": "1", "try_text": HOSTILE}))
    assert "<script>window" not in page
    page = text_of(client.post(ADD, form() | {"_try": "1", "grammars-0-markers-BLOCK": "a"}))
    assert "correct the marked fields above first" in page
    assert "errorlist" in page
    assert not FormatDefinition.objects.exists()


def test_stored_answers_are_tried_only_for_those_who_may_read_them(pages):
    for harbor in ("Moss", "Bergen"):
        stored_exchange(
            answer(harbor), leaked_format="unknown", upstream_model=MODEL, format="standard"
        )
    other = stored_exchange(
        answer().replace(b"<|do|>", b"<|does|>"),
        leaked_format="unknown",
        upstream_model=MODEL,
    )
    tried = form() | {"_try": "1", "try_model": MODEL}
    page = text_of(pages(OPERATORS, SUPPORT).post(ADD, tried))
    assert f"Of 3 leaked answers of {MODEL}, 2 become calls." in page
    assert other.request_id in page
    assert "No call was read." in page
    page = text_of(pages(OPERATORS).post(ADD, tried))
    assert "leaked answers of" not in page
    assert pages(SUPPORT).post(ADD, tried).status_code == 403


def test_support_sees_formats_and_cannot_edit_them(pages):
    row = FormatDefinition.objects.create(
        name="muse", definition=MUSE, note=HOSTILE.replace("\0", "")[:150]
    )
    client = pages(SUPPORT)
    assert "Copy</a>" not in text_of(get(client, LIST))
    assert client.get(f"{LIST}{row.pk}/change/")["location"] == "/admin/formats/muse/"
    page = text_of(get(client, "/admin/formats/muse/"))
    assert "&lt;|do|&gt;" in page
    assert "<script>window" not in page
    assert "Edit</a>" not in page
    for name in BUILT_IN_DEFINITIONS:
        get(client, f"/admin/formats/{name}/")
    get(client, "/admin/formats/nothing/", 404)


def test_a_format_in_use_is_not_deleted(pages):
    client = pages(OPERATORS)
    row = FormatDefinition.objects.create(name="muse", definition=MUSE)
    FormatOverride.objects.create(pattern=MODEL, format="muse")
    page = text_of(get(client, f"{LIST}{row.pk}/delete/"))
    assert f"{MODEL} → muse" in unescape(page)
    client.post(f"{LIST}{row.pk}/delete/", {"post": "yes"})
    client.post(LIST, {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"})
    assert FormatDefinition.objects.exists()
    FormatOverride.objects.all().delete()
    client.post(f"{LIST}{row.pk}/delete/", {"post": "yes"})
    assert not FormatDefinition.objects.exists()


def test_overrides_offer_the_operators_formats(pages):
    FormatDefinition.objects.create(name="muse", definition=MUSE)
    FormatDefinition.objects.create(name="asleep", definition=MUSE, active=False)
    page = text_of(get(pages(OPERATORS), "/admin/proxy/formatoverride/add/"))
    assert '<option value="muse">' in page
    assert '<option value="asleep">' not in page
    page = text_of(get(pages(SUPPORT), "/admin/playground/"))
    assert '<option value="muse">' in page
    page = text_of(get(pages(SUPPORT), "/admin/audit/?leaked=unknown&format=muse"))
    assert '<option value="muse" selected>' in page


def test_the_preview_shows_the_models_that_a_detection_pattern_takes(pages):
    upstream = Upstream.objects.get()
    ModelRoute.objects.create(pattern="house", upstream=upstream, upstream_model=MODEL)
    sent = form() | {"detect-patterns": "acme/*", "_preview": "1"}
    assert f"demo: {MODEL} as muse" in text_of(pages(OPERATORS).post(ADD, sent))
