"""The management API: access, requests and responses."""

import base64
import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from proxy.models import ApiToken, Comment, FailureHour, Replay
from proxy.roles import OPERATORS, SUPPORT
from tests.support.api_clients import send_json, staff_user, token_client
from tests.support.stored_exchanges import (
    configure,
    exchange_row,
    failure_group,
    leaked_kimi,
    stored_exchange,
)
from tests.support.wire import stream

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def configured(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    configure()
    cache.clear()  # the throttles count requests in it
    yield
    cache.clear()


@pytest.fixture
def support():
    return token_client(staff_user(SUPPORT))


@pytest.fixture
def operator():
    return token_client(staff_user(OPERATORS))


def test_exchanges_are_listed_in_pages_newest_first(support, django_assert_max_num_queries):
    rows = [exchange_row() for _ in range(5)]
    with django_assert_max_num_queries(8):
        first = support.get("/api/exchanges/?page_size=2").json()
    assert [row["request_id"] for row in first["results"]] == [r.request_id for r in rows[:2:-1]]
    second = support.get(first["next"]).json()
    assert [row["request_id"] for row in second["results"]] == [
        rows[2].request_id,
        rows[1].request_id,
    ]
    assert "count" not in first
    assert support.get(second["previous"]).json()["results"] == first["results"]


@pytest.mark.parametrize(
    ("query", "is_listed"),
    [
        ("outcome=failed", True),
        ("outcome=ok", False),
        ("format=kimi&code=call_truncated", True),
        ("model=m&upstream=u", True),
        ("leaked=any", False),
        ("served_by=none", True),
        ("served_by=Parasail", False),
        ("rescued=any", False),
        ("since=1h", True),
        ("since=90d", True),
        ("until=2020-01-01T00:00", False),
    ],
)
def test_the_api_has_the_filters_of_the_list_page(support, query, is_listed):
    exchange_row(
        outcome="transform_failed",
        format="kimi",
        error_code="call_truncated",
        model="m",
        upstream="u",
        created_at=timezone.now(),
    )
    assert len(support.get(f"/api/exchanges/?{query}").json()["results"]) == is_listed


@pytest.mark.parametrize(
    "query", ["since=yesterday", "key=x", "colour=red", "group=99999999999999999999"]
)
def test_the_error_of_an_invalid_filter_is_a_sentence(support, query):
    response = support.get(f"/api/exchanges/?{query}")
    assert response.status_code == 400
    assert query.split("=")[0] in response.json()["detail"]


def test_an_exchange_has_every_field_and_the_reason_of_its_failure(support):
    row = exchange_row(outcome="timeout", error_code="upstream_idle")
    body = support.get(f"/api/exchanges/{row.request_id}/").json()
    assert body["why"] == "openrouter started to answer and then sent nothing more."
    assert (body["outcome"], body["duration_ms"], body["tool_calls"]) == ("timeout", 1234.5, 0)
    assert "id" not in body


def test_a_transcript_has_the_bytes_and_can_be_replayed_from_a_file(support, tmp_path, capsys):
    row = leaked_kimi()
    response = support.get(f"/api/transcripts/{row.request_id}/")
    body = response.json()
    assert base64.b64decode(body["raw"]) == row.transcript.content.raw
    assert body["exchange"]["request_id"] == row.request_id
    path = tmp_path / "transcript.json"
    path.write_bytes(response.content)
    call_command("replay", "--file", path, "--format", "kimi")
    assert f"{row.request_id}  fixed, as kimi" in capsys.readouterr().out


def test_a_replay_is_stored_with_its_author(support):
    row = leaked_kimi()
    url = f"/api/exchanges/{row.request_id}/replays/"
    response = send_json(support, "POST", url, {"format": "kimi"})
    assert response.status_code == 201
    body = response.json()
    assert (body["result"], body["format"], body["author"]) == (
        "fixed",
        "kimi",
        "user with ('support',)",
    )
    assert b"tool_use" in base64.b64decode(body["sent"])
    assert Replay.objects.get().exchange == row
    (listed,) = support.get(url).json()["results"]
    assert (listed["id"], listed["result"]) == (body["id"], "fixed")
    assert "sent" not in listed


@pytest.mark.parametrize(
    ("body", "word"), [({"format": "klingon"}, "format"), ({"buffer_limit": 1}, "buffer_limit")]
)
def test_invalid_options_of_a_replay_are_rejected(support, body, word):
    row = leaked_kimi()
    response = send_json(support, "POST", f"/api/exchanges/{row.request_id}/replays/", body)
    assert (response.status_code, Replay.objects.count()) == (400, 0)
    assert response.json()["detail"].startswith(f"{word}: ")
    assert word in response.json()["fields"]


def test_replaying_an_exchange_without_a_transcript_is_a_conflict(support):
    row = exchange_row()
    response = send_json(support, "POST", f"/api/exchanges/{row.request_id}/replays/")
    assert response.status_code == 409
    assert "no transcript" in response.json()["detail"]


def test_the_content_of_a_replay_needs_the_permission_to_view_transcripts():
    user = staff_user(SUPPORT)
    user.groups.clear()
    for name in ("view_exchange", "add_replay"):
        user.user_permissions.add(Permission.objects.get(codename=name))
    row = leaked_kimi()
    response = send_json(
        token_client(user), "POST", f"/api/exchanges/{row.request_id}/replays/", {}
    )
    assert response.status_code == 201
    assert response.json().keys().isdisjoint(("events", "sent"))


def test_groups_are_listed_and_changed(support):
    group = failure_group()
    failure_group(state="ignored")
    FailureHour.objects.create(group=group, hour=group.last_seen, count=3)
    (listed,) = support.get("/api/groups/?state=open&format=kimi").json()["results"]
    assert (listed["id"], listed["count"], listed["assignee"]) == (group.pk, 1, None)
    url = f"/api/groups/{group.pk}/"
    assert list(support.get(url).json()["hours"].values()) == [3]
    body = send_json(
        support, "PATCH", url, {"state": "resolved", "assignee": "user with ('support',)"}
    ).json()
    assert (body["state"], body["assignee"]) == ("resolved", "user with ('support',)")
    assert send_json(support, "PATCH", url, {"assignee": None}).json()["assignee"] is None
    group.refresh_from_db()
    assert (group.state, group.assignee) == ("resolved", None)


@pytest.mark.parametrize(
    "body", [{"state": "regressed"}, {"state": "x"}, {"assignee": "nobody"}, {"assignee": 7}]
)
def test_an_invalid_change_of_a_group_is_rejected(support, body):
    group = failure_group()
    response = send_json(support, "PATCH", f"/api/groups/{group.pk}/", body)
    assert response.status_code == 400
    group.refresh_from_db()
    assert (group.state, group.assignee) == ("open", None)


def test_only_state_and_assignee_of_a_group_can_be_changed(support):
    group = failure_group()
    send_json(support, "PATCH", f"/api/groups/{group.pk}/", {"count": 99, "fingerprint": "x"})
    group.refresh_from_db()
    assert group.count == 1


def test_the_author_of_a_comment_is_the_sender(support):
    group = failure_group()
    url = f"/api/groups/{group.pk}/comments/"
    response = send_json(support, "POST", url, {"text": "seen", "author": "another"})
    assert (response.status_code, response.json()["author"]) == (201, "user with ('support',)")
    assert Comment.objects.get().text == "seen"
    assert [comment["text"] for comment in support.get(url).json()["results"]] == ["seen"]
    assert send_json(support, "POST", url, {"text": " "}).status_code == 400
    assert send_json(support, "POST", "/api/groups/999/comments/", {"text": "x"}).status_code == 404


def test_hidden_rows_are_not_found_and_forbidden_actions_are_rejected(operator):
    row, group = leaked_kimi(), failure_group()
    assert operator.get(f"/api/exchanges/{row.request_id}/").status_code == 200
    unseen = operator.get(f"/api/transcripts/{row.request_id}/")
    absent = operator.get("/api/transcripts/req_0/")
    assert (unseen.status_code, unseen.json()) == (404, absent.json())
    assert (
        send_json(operator, "PATCH", f"/api/groups/{group.pk}/", {"state": "open"}).status_code
        == 403
    )
    assert (
        send_json(operator, "POST", f"/api/exchanges/{row.request_id}/replays/").status_code == 403
    )


def test_a_token_is_rejected_after_expiry_deletion_or_loss_of_its_owner():
    user = staff_user(SUPPORT)
    row, plain = ApiToken.make(user, expires_at=timezone.now() + timedelta(hours=1))
    web = Client(headers={"authorization": f"Bearer {plain}"})
    assert web.get("/api/exchanges/").status_code == 200
    for fields in ({"is_active": False}, {"is_staff": False}):
        User.objects.filter(pk=user.pk).update(**fields)
        assert web.get("/api/exchanges/").status_code in (401, 403)
        User.objects.filter(pk=user.pk).update(is_active=True, is_staff=True)
    ApiToken.objects.update(expires_at=timezone.now())
    response = web.get("/api/exchanges/")
    assert (response.status_code, response["www-authenticate"]) == (401, "Bearer")
    row.delete()
    assert web.get("/api/exchanges/").status_code == 401


def test_only_the_hash_of_a_token_is_stored():
    row, plain = ApiToken.make(staff_user(SUPPORT))
    fields = ApiToken.objects.filter(pk=row.pk).values().get()
    assert plain not in str(fields)
    assert plain.startswith(fields["prefix"])


def test_a_session_needs_the_csrf_token_to_change_anything():
    group = failure_group()
    web = Client(enforce_csrf_checks=True)
    web.force_login(staff_user(SUPPORT))
    assert web.get(f"/api/groups/{group.pk}/").status_code == 200
    response = send_json(web, "PATCH", f"/api/groups/{group.pk}/", {"state": "ignored"})
    assert (response.status_code, "CSRF" in response.json()["detail"]) == (403, True)


def test_requests_are_limited(support, monkeypatch):
    from rest_framework.throttling import UserRateThrottle

    monkeypatch.setattr(UserRateThrottle, "THROTTLE_RATES", {"user": "3/min", "replay": "1/min"})
    row = leaked_kimi()
    url = f"/api/exchanges/{row.request_id}/replays/"
    assert [send_json(support, "POST", url).status_code for _ in range(2)] == [201, 429]
    assert [support.get("/api/exchanges/").status_code for _ in range(2)] == [200, 429]


def test_responses_are_json_and_not_cached(support):
    for url in ("/api/exchanges/", "/api/exchanges/req_0/", "/api/schema/"):
        response = support.get(url, headers={"accept": "text/html"})
        assert "json" in response["content-type"], url
        assert response["cache-control"] == "no-store"


def test_invalid_json_is_rejected_with_a_sentence(support):
    group = failure_group()
    response = support.generic("PATCH", f"/api/groups/{group.pk}/", b"{", "application/json")
    assert response.status_code == 400
    assert "JSON" in response.json()["detail"]


@pytest.mark.parametrize("text", ["\\u0000", "\\ud800", "\\udfff"])
def test_characters_that_cannot_be_stored_are_rejected(support, text):
    group = failure_group()
    for body in (f'{{"state": "{text}"}}', f'{{"{text}": 1}}', f'{{"state": [["{text}"]]}}'):
        response = support.generic("PATCH", f"/api/groups/{group.pk}/", body, "application/json")
        assert (response.status_code, "unpaired surrogate" in response.json()["detail"]) == (
            400,
            True,
        )
    assert support.get("/api/exchanges/?model=%00").status_code == 400


@pytest.mark.parametrize("depth", [40, 100_000])
def test_deeply_nested_json_is_rejected(support, depth):
    group = failure_group()
    body = '{"state": ' + "[" * depth + "]" * depth + "}"
    response = support.generic("PATCH", f"/api/groups/{group.pk}/", body, "application/json")
    assert (response.status_code, "nested" in response.json()["detail"]) == (400, True)


@pytest.mark.parametrize("cursor", ["x", "p=nonsense", "p=99999999999999999999", "o=5", "r=1&p="])
def test_an_invalid_cursor_is_not_a_server_error(support, cursor):
    text = base64.b64encode(cursor.encode()).decode()
    for url in ("/api/exchanges/", "/api/groups/"):
        assert support.get(url, {"cursor": text}).status_code in (200, 404)


def test_hostile_output_of_a_model_is_plain_data(support):
    text = "<script>alert(1)</script>\u2028\u202e\x1b[31m"
    row = stored_exchange(stream({"content": text}), model=text[:40], user_agent=text)
    response = support.get(f"/api/transcripts/{row.request_id}/")
    assert response["content-type"] == "application/json"
    assert response["x-content-type-options"] == "nosniff"
    assert response.json()["exchange"]["user_agent"] == text


def test_the_schema_has_every_endpoint_and_no_warnings(support, capsys):
    body = support.get("/api/schema/").json()
    assert body["openapi"].startswith("3.")
    assert {path.replace("{name}", "{id}") for path in body["paths"]} == {
        "/api/exchanges/",
        "/api/exchanges/{request_id}/",
        "/api/exchanges/{request_id}/replays/",
        "/api/groups/",
        "/api/groups/{id}/",
        "/api/groups/{id}/comments/",
        "/api/transcripts/{request_id}/",
        "/api/configuration/",
        "/api/resolve/",
        "/api/settings/",
        "/api/settings/history/",
        "/api/settings/history/{version}/revert/",
        "/api/keys/{id}/revoke/",
        "/api/keys/{id}/rotate/",
        *(
            f"/api/{table}/{rest}"
            for table in ("upstreams", "routes", "definitions", "overrides", "keys", "formats")
            for rest in ("", "{id}/", "{id}/history/", "{id}/history/{version}/revert/")
        ),
    }
    assert {p["name"] for p in body["paths"]["/api/exchanges/"]["get"]["parameters"]} >= {
        "outcome",
        "cursor",
        "page_size",
    }
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", "/dev/null")


def test_the_documentation_page_has_no_inline_scripts():
    web = Client()
    web.force_login(staff_user(SUPPORT))
    response = web.get("/api/docs/")
    text = response.content.decode()
    assert response.status_code == 200
    assert "PATCH /api/groups/{id}/" in text
    assert 'Request body: any fields of <a href="#RouteIn">RouteIn</a>' in text
    assert '200: a page of <a href="#RouteOut">RouteOut</a>' in text
    anchors = set(re.findall(r'id="([\w-]+)"', text))
    assert set(re.findall(r'href="#([\w-]+)"', text)) - {"content-start"} <= anchors
    assert "unsafe" not in response["content-security-policy"]
    assert "<style" not in text
    assert all("src=" in part.split(">")[0] for part in text.split("<script")[1:])


def test_the_token_command_creates_lists_and_deletes(capsys):
    user = staff_user(SUPPORT, username="maria")
    call_command("token", "create", "maria", "--label", "nightly", "--days", "30")
    plain = capsys.readouterr().out.strip()
    web = Client(headers={"authorization": f"Bearer {plain}"})
    assert web.get("/api/exchanges/").status_code == 200
    call_command("token", "list")
    printed = capsys.readouterr().out
    assert "maria" in printed
    assert plain not in printed
    call_command("token", "delete", str(user.api_tokens.get().pk))
    assert web.get("/api/exchanges/").status_code == 401
    for arguments in (["create", "nobody"], ["delete", "99"], ["create", "maria", "--days", "0"]):
        with pytest.raises(CommandError):
            call_command("token", *arguments)
    User.objects.update(is_staff=False)
    with pytest.raises(CommandError, match="not an active staff user"):
        call_command("token", "create", "maria")
