"""The API of the configuration's history and of reverts."""

import pytest
from django.contrib.auth.models import Permission

from proxy.models import ClientKey, FormatOverride, ModelRoute, Upstream
from proxy.roles import SUPPORT
from tests.support.api_clients import send_json, staff_user, token_client

pytestmark = pytest.mark.usefixtures("configured")


def make_override(operator, **fields):
    body = {"pattern": "house/*", "format": "kimi", **fields}
    return send_json(operator, "POST", "/api/overrides/", body).json()


def test_the_history_lists_authors_and_changes(operator):
    created = make_override(operator)
    url = f"/api/overrides/{created['id']}/"
    changed = send_json(operator, "PATCH", url, {"format": "qwen", "active": False}).json()
    operator.delete(url)
    deleted, second, first = operator.get(f"{url}history/").json()["results"]
    assert (first["version"], first["kind"], first["changed_by"]) == (
        created["version"],
        "created",
        "olga",
    )
    assert {c["name"]: c["new"] for c in first["changes"]}["pattern"] == "house/*"
    assert (second["version"], second["kind"]) == (changed["version"], "changed")
    assert second["changes"] == [
        {"name": "format", "label": "format", "old": "kimi", "new": "qwen"},
        {"name": "active", "label": "active", "old": "yes", "new": "no"},
    ]
    assert (deleted["kind"], deleted["changes"][0]["new"]) == ("deleted", "–")


def test_the_history_is_paginated(operator, django_assert_max_num_queries):
    row = ModelRoute.objects.get(pattern="default")
    for number in range(6):
        row.priority = number
        row.save()
    url = f"/api/routes/{row.pk}/history/"
    with django_assert_max_num_queries(14):
        found = operator.get(f"{url}?page_size=3").json()
    assert [c["old"] for r in found["results"] for c in r["changes"]] == ["4", "3", "2"]
    found = operator.get(found["next"]).json()
    assert [c["old"] for r in found["results"] for c in r["changes"]] == ["1", "0", "100"]
    last = operator.get(found["next"]).json()
    assert [(r["kind"], r["changed_by"]) for r in last["results"]] == [("created", None)]
    assert operator.get(f"{url}?cursor=bm9uc2Vuc2U=").status_code in (200, 404)
    assert operator.get(f"{url}?cursor=cD1ub25zZW5zZQ==").status_code == 404


def test_a_revert_by_the_api_is_recorded_as_a_new_change(operator):
    created = make_override(operator)
    url = f"/api/overrides/{created['id']}/"
    send_json(operator, "PATCH", url, {"format": "qwen", "note": "a slip"})
    back = send_json(operator, "POST", f"{url}history/{created['version']}/revert/").json()
    assert (back["format"], back["note"], back["version"]) == ("kimi", "", created["version"] + 2)
    newest = operator.get(f"{url}history/").json()["results"][0]
    assert (newest["kind"], newest["reason"]) == (
        "changed",
        f"back to version {created['version']}",
    )
    assert send_json(operator, "POST", f"{url}history/1/revert/").status_code == 404
    assert send_json(operator, "POST", f"{url}history/{'9' * 18}/revert/").status_code == 404


def test_a_revert_with_an_outdated_etag_is_rejected(operator):
    created = make_override(operator)
    url = f"/api/overrides/{created['id']}/"
    send_json(operator, "PATCH", url, {"format": "qwen"})
    late = operator.post(
        f"{url}history/{created['version']}/revert/",
        headers={"if-match": f'"{created["version"]}"'},
    )
    assert late.status_code == 412
    assert FormatOverride.objects.get().format == "qwen"


def test_a_deleted_row_can_be_restored(operator):
    created = make_override(operator)
    url = f"/api/overrides/{created['id']}/"
    operator.delete(url)
    deleted = operator.get(f"{url}history/").json()["results"][0]
    back = send_json(operator, "POST", f"{url}history/{deleted['version']}/revert/")
    assert (back.status_code, back.json()["id"]) == (200, created["id"])
    assert operator.get(url).json()["pattern"] == "house/*"


def test_restoring_a_deleted_row_needs_the_permission_to_add(operator):
    created = make_override(operator)
    url = f"/api/overrides/{created['id']}/"
    user = staff_user(SUPPORT)
    for name in ("view_formatoverride", "change_formatoverride"):
        user.user_permissions.add(Permission.objects.get(codename=name))
    revert = f"{url}history/{created['version']}/revert/"
    assert send_json(token_client(user), "POST", revert).status_code == 200
    operator.delete(url)
    assert send_json(token_client(user), "POST", revert).status_code == 403
    assert not FormatOverride.objects.exists()


def test_a_revert_that_is_not_valid_any_more_is_a_conflict(operator):
    created = make_override(operator)
    url = f"/api/overrides/{created['id']}/"
    send_json(operator, "PATCH", url, {"pattern": "yard/*"})
    make_override(operator)
    response = send_json(operator, "POST", f"{url}history/{created['version']}/revert/")
    assert (response.status_code, list(response.json()["fields"])) == (409, ["pattern"])


def test_a_revert_keeps_secrets_and_revocations(operator):
    body = {"name": "mine", "base_url": "https://mine.example/v1", "key": "sk-first-of-two-keys"}
    created = send_json(operator, "POST", "/api/upstreams/", body).json()
    url = f"/api/upstreams/{created['id']}/"
    send_json(operator, "PATCH", url, {"key": "sk-second-of-two-keys", "idle_timeout": 1})
    send_json(operator, "POST", f"{url}history/{created['version']}/revert/")
    row = Upstream.objects.get(name="mine")
    assert (row.read_key(), row.idle_timeout) == ("sk-second-of-two-keys", 120)
    created = send_json(operator, "POST", "/api/keys/", {"label": "ada"}).json()
    url = f"/api/keys/{created['id']}/"
    send_json(operator, "POST", f"{url}revoke/")
    back = send_json(operator, "POST", f"{url}history/{created['version']}/revert/").json()
    assert back["state"] == "revoked"
    ClientKey.objects.filter(pk=created["id"]).delete()
    gone = send_json(operator, "POST", f"{url}history/{created['version']}/revert/")
    assert (gone.status_code, "secret was not kept" in gone.json()["detail"]) == (409, True)


def test_formats_and_settings_have_a_history_too(operator):
    for url in ("/api/formats/kimi/", "/api/settings/"):
        first = operator.get(url).json()
        field = "buffer_limit" if "formats" in url else "max_body_bytes"
        send_json(operator, "PATCH", url, {field: 2048})
        newest, *_ = operator.get(f"{url}history/").json()["results"]
        (change,) = newest["changes"]
        assert (change["name"], change["old"], change["new"]) == (field, str(first[field]), "2048")
        back = send_json(operator, "POST", f"{url}history/{first['version']}/revert/").json()
        assert back[field] == first[field]
    assert (
        send_json(operator, "POST", f"/api/settings/history/{'9' * 30}/revert/").status_code == 404
    )


def test_a_row_that_never_existed_has_no_history(operator):
    assert operator.get("/api/overrides/999/history/").status_code == 404
    assert operator.get("/api/formats/klingon/history/").status_code == 404
