"""The API of the configuration's history: who did what, and how it is taken back."""

import pytest
from django.contrib.auth.models import Permission

from proxy.models import ClientKey, FormatOverride, ModelRoute, Upstream
from proxy.roles import SUPPORT
from tests.support.api_clients import client_of, person, send

pytestmark = pytest.mark.usefixtures("configured")


def make_override(operator, **fields):
    body = {"pattern": "house/*", "format": "kimi", **fields}
    return send(operator, "POST", "/api/overrides/", body).json()


def test_a_history_says_who_did_what(operator):
    made = make_override(operator)
    url = f"/api/overrides/{made['id']}/"
    changed = send(operator, "PATCH", url, {"format": "qwen", "active": False}).json()
    operator.delete(url)
    deleted, second, first = operator.get(f"{url}history/").json()["results"]
    assert (first["version"], first["kind"], first["changed_by"]) == (
        made["version"],
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


def test_a_history_is_read_a_page_at_a_time(operator, django_assert_max_num_queries):
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


def test_an_old_state_is_brought_back_as_a_change_of_its_own(operator):
    made = make_override(operator)
    url = f"/api/overrides/{made['id']}/"
    send(operator, "PATCH", url, {"format": "qwen", "note": "a slip"})
    back = send(operator, "POST", f"{url}history/{made['version']}/revert/").json()
    assert (back["format"], back["note"], back["version"]) == ("kimi", "", made["version"] + 2)
    newest = operator.get(f"{url}history/").json()["results"][0]
    assert (newest["kind"], newest["reason"]) == ("changed", f"back to version {made['version']}")
    assert send(operator, "POST", f"{url}history/1/revert/").status_code == 404
    assert send(operator, "POST", f"{url}history/{'9' * 18}/revert/").status_code == 404


def test_going_back_is_not_done_over_anothers_change(operator):
    made = make_override(operator)
    url = f"/api/overrides/{made['id']}/"
    send(operator, "PATCH", url, {"format": "qwen"})
    late = operator.post(
        f"{url}history/{made['version']}/revert/", headers={"if-match": f'"{made["version"]}"'}
    )
    assert late.status_code == 412
    assert FormatOverride.objects.get().format == "qwen"


def test_what_was_deleted_is_made_again(operator):
    made = make_override(operator)
    url = f"/api/overrides/{made['id']}/"
    operator.delete(url)
    deleted = operator.get(f"{url}history/").json()["results"][0]
    back = send(operator, "POST", f"{url}history/{deleted['version']}/revert/")
    assert (back.status_code, back.json()["id"]) == (200, made["id"])
    assert operator.get(url).json()["pattern"] == "house/*"


def test_making_again_needs_the_permission_to_make(operator):
    made = make_override(operator)
    url = f"/api/overrides/{made['id']}/"
    user = person(SUPPORT)
    for name in ("view_formatoverride", "change_formatoverride"):
        user.user_permissions.add(Permission.objects.get(codename=name))
    revert = f"{url}history/{made['version']}/revert/"
    assert send(client_of(user), "POST", revert).status_code == 200
    operator.delete(url)
    assert send(client_of(user), "POST", revert).status_code == 403
    assert not FormatOverride.objects.exists()


def test_what_cannot_be_any_more_is_a_conflict(operator):
    made = make_override(operator)
    url = f"/api/overrides/{made['id']}/"
    send(operator, "PATCH", url, {"pattern": "yard/*"})
    make_override(operator)
    response = send(operator, "POST", f"{url}history/{made['version']}/revert/")
    assert (response.status_code, list(response.json()["fields"])) == (409, ["pattern"])


def test_the_secret_of_an_upstream_stays_and_a_revoked_key_stays_revoked(operator):
    body = {"name": "mine", "base_url": "https://mine.example/v1", "key": "sk-first-of-two-keys"}
    made = send(operator, "POST", "/api/upstreams/", body).json()
    url = f"/api/upstreams/{made['id']}/"
    send(operator, "PATCH", url, {"key": "sk-second-of-two-keys", "idle_timeout": 1})
    send(operator, "POST", f"{url}history/{made['version']}/revert/")
    row = Upstream.objects.get(name="mine")
    assert (row.read_key(), row.idle_timeout) == ("sk-second-of-two-keys", 120)
    made = send(operator, "POST", "/api/keys/", {"label": "ada"}).json()
    url = f"/api/keys/{made['id']}/"
    send(operator, "POST", f"{url}revoke/")
    back = send(operator, "POST", f"{url}history/{made['version']}/revert/").json()
    assert back["state"] == "revoked"
    ClientKey.objects.filter(pk=made["id"]).delete()
    gone = send(operator, "POST", f"{url}history/{made['version']}/revert/")
    assert (gone.status_code, "secret was not kept" in gone.json()["detail"]) == (409, True)


def test_formats_and_settings_have_a_history_too(operator):
    for url in ("/api/formats/kimi/", "/api/settings/"):
        first = operator.get(url).json()
        field = "buffer_limit" if "formats" in url else "max_body_bytes"
        send(operator, "PATCH", url, {field: 2048})
        newest, *_ = operator.get(f"{url}history/").json()["results"]
        (change,) = newest["changes"]
        assert (change["name"], change["old"], change["new"]) == (field, str(first[field]), "2048")
        back = send(operator, "POST", f"{url}history/{first['version']}/revert/").json()
        assert back[field] == first[field]
    assert send(operator, "POST", f"/api/settings/history/{'9' * 30}/revert/").status_code == 404


def test_a_row_that_never_was_has_no_history(operator):
    assert operator.get("/api/overrides/999/history/").status_code == 404
    assert operator.get("/api/formats/klingon/history/").status_code == 404
