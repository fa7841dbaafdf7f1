"""Export and import page: differences are shown first, and only those are imported."""

import re

import pytest
from django.contrib.auth.models import Group, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from proxy.configuration.document.export import current_version, export
from proxy.models import FormatOverride, ModelRoute, Upstream
from proxy.roles import OPERATORS
from tests.support.stored_exchanges import configure

pytestmark = pytest.mark.django_db
CANARY = "sk-canary-of-the-page"
HOSTILE = "</textarea><script>window.__xss=1</script>\u202e"


@pytest.fixture
def web(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    configure()
    user = User.objects.create(username="olga", is_staff=True)
    user.groups.set(Group.objects.filter(name=OPERATORS))
    client = Client()
    client.force_login(user)
    return client


def show(web, text, **files):
    return web.post(reverse("configuration:difference"), {"text": text, **files})


def confirm(web, text, version):
    return web.post(reverse("configuration:import"), {"text": text, "version": version})


def edited():
    return export()[0].replace("deepseek/deepseek-v3.2", "moonshotai/kimi-k2.5")


def page_of(response):
    assert response.status_code == 200
    return response.content.decode()


def test_the_downloaded_document_is_named_after_its_version(web):
    row = Upstream.objects.get()
    row.store_key(CANARY)
    row.save()
    assert f"athena-{current_version()}.yaml" in page_of(web.get(reverse("configuration:page")))
    response = web.get(reverse("configuration:export"))
    assert (
        response["content-disposition"] == f'attachment; filename="athena-{current_version()}.yaml"'
    )
    assert response["content-type"] == "application/yaml; charset=utf-8"
    assert response["cache-control"] == "no-store"
    assert response.content.decode() == export()[0]
    assert CANARY not in response.content.decode()


def test_differences_are_shown_and_then_imported(web):
    number = current_version()
    page = page_of(show(web, edited()))
    assert "1 row would change" in page
    assert re.search(
        r'class="before">deepseek/deepseek-v3.2<.*class="after">moonshotai/kimi-k2.5<', page
    )
    assert "demo: moonshotai/kimi-k2.5 as kimi" in page
    assert f'name="version" value="{number}"' in page
    assert current_version() == number
    assert f"version {number + 1}" in page_of(confirm(web, edited(), number))
    record = ModelRoute.history.first()
    assert record.upstream_model == "moonshotai/kimi-k2.5"
    assert (record.history_user.username, record.history_change_reason) == ("olga", "import")


def test_an_import_based_on_an_older_version_is_shown_again(web):
    text, number = edited(), current_version()
    FormatOverride.objects.create(pattern="x/*", format="kimi")
    page = page_of(confirm(web, text, number))
    assert "The configuration changed after the differences were shown" in page
    assert "2 rows would change" in page
    assert f'name="version" value="{number + 1}"' in page
    assert FormatOverride.objects.exists()
    assert page_of(confirm(web, text, number + 1))
    assert not FormatOverride.objects.exists()


def test_a_file_can_be_uploaded_instead_of_text(web):
    page = page_of(show(web, "", file=SimpleUploadedFile("a.yaml", edited().encode())))
    assert "1 row would change" in page
    page = page_of(show(web, "athena: 7", file=SimpleUploadedFile("a.yaml", edited().encode())))
    assert "not both" in page
    for wrong, message in (
        (b"\xff", "The file is not UTF-8"),
        (b"x" * (2**20 + 1), "larger than 1,048,576"),
    ):
        page = page_of(show(web, "", file=SimpleUploadedFile("a.yaml", wrong)))
        assert message in page


def test_the_same_document_changes_nothing(web):
    page = page_of(show(web, export()[0].replace("\n", "\r\n")))
    assert "Nothing would change" in page
    assert 'name="version"' not in page


@pytest.mark.parametrize("way", [show, lambda web, text: confirm(web, text, current_version())])
def test_problems_are_shown_with_line_numbers_and_the_text_is_kept(web, way):
    before = export()
    page = page_of(way(web, f"athena: 1\nroutes:\n- patern: '{HOSTILE}'\n"))
    assert "Import rejected. Nothing was changed." in page
    assert "routes[0].patern" in page
    assert "3:3" in page
    assert "<script>window" not in page
    assert "&lt;/textarea&gt;&lt;script&gt;" in page
    assert export() == before


def test_an_empty_document_is_rejected(web):
    assert "Paste a document or upload a file" in page_of(show(web, " "))
    assert page_of(confirm(web, "", "x"))
    assert "Null characters" in page_of(show(web, "athena: 1 \0"))


def test_hostile_values_are_shown_as_text(web):
    page = page_of(
        show(web, f"athena: 1\noverrides: [{{pattern: a, format: kimi, note: '{HOSTILE}'}}]")
    )
    assert "<script>window" not in page
    assert "⟦U+202E⟧" in page


def test_preview_and_import_need_a_csrf_token(web):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get(username="olga"))
    assert show(strict, "athena: 1").status_code == 403
    assert confirm(strict, "athena: 1", 1).status_code == 403


def test_only_operators_see_the_link_to_import_and_export(web):
    assert reverse("configuration:page") in page_of(web.get("/admin/"))
    User.objects.get(username="olga").groups.clear()
    assert reverse("configuration:page") not in page_of(web.get("/admin/"))
