"""The API of the configuration tables."""

import json

import pytest
from django.contrib.auth.models import User

from proxy.configuration.history import newest, version_of
from proxy.models import (
    ConfigurationVersion,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Upstream,
)
from proxy.roles import OPERATORS, SUPPORT
from tests.support.api_clients import send_json, staff_user, token_client
from tests.support.muse import MODEL, MUSE, muse

pytestmark = pytest.mark.usefixtures("configured")
CANARY = "sk-or-v1-canary-of-the-api-9876"
HEADER_CANARY = "canary-of-a-header"


def make_upstream(operator, **fields):
    body = {"name": "mine", "base_url": "https://mine.example/v1", **fields}
    response = send_json(operator, "POST", "/api/upstreams/", body)
    assert response.status_code == 201, response.content
    return response.json()


def make_route(operator, pattern, **fields):
    response = send_json(operator, "POST", "/api/routes/", {"pattern": pattern, **fields})
    assert response.status_code == 201, response.content
    return response.json()


def test_a_format_is_defined_used_changed_and_deleted(operator):
    body = {"name": "muse", "definition": MUSE, "note": "for a test"}
    created = send_json(operator, "POST", "/api/definitions/", body)
    assert created.status_code == 201, created.content
    row = created.json()
    assert {name: row[name] for name in body} == body
    assert operator.get("/api/formats/muse/").json()["buffer_limit"] == 1024 * 1024
    override = {"pattern": "acme/*", "format": "muse"}
    used = send_json(operator, "POST", "/api/overrides/", override).json()
    route = make_route(operator, MODEL, upstream=make_upstream(operator)["name"])
    resolved = operator.get(f"/api/resolve/?model={route['pattern']}").json()
    assert (resolved["format"], resolved["format_reason"]) == ("muse", "override")
    url = f"/api/definitions/{row['id']}/"
    refused = operator.delete(url)
    assert refused.status_code == 409
    assert refused.json()["detail"] == "1 override uses it: acme/* → muse."
    refused = send_json(operator, "PATCH", url, {"active": False})
    assert refused.status_code == 400
    assert "acme/* → muse" in refused.json()["detail"]
    assert operator.delete(f"/api/overrides/{used['id']}/").status_code == 204
    detecting = muse(detect={"patterns": ["acme/*"]})
    assert send_json(operator, "PATCH", url, {"definition": detecting}).status_code == 200
    resolved = operator.get(f"/api/resolve/?model={route['pattern']}").json()
    assert (resolved["format"], resolved["format_reason"]) == ("muse", "definition")
    assert [change["kind"] for change in operator.get(f"{url}history/").json()["results"]] == [
        "changed",
        "created",
    ]
    assert operator.delete(url).status_code == 204


def test_each_problem_of_a_definition_names_its_place(operator):
    body = {"name": "muse", "definition": {"grammars": [{"kind": "none", "markers": {}}]}}
    refused = send_json(operator, "POST", "/api/definitions/", body)
    assert refused.status_code == 400
    assert refused.json()["detail"].startswith("definition: grammars.0.kind: ")


def test_an_override_is_created_read_changed_and_deleted(operator):
    created = send_json(
        operator, "POST", "/api/overrides/", {"pattern": "house/*", "format": "kimi"}
    )
    assert created.status_code == 201
    body = created.json()
    assert body == {
        "id": body["id"],
        "version": ConfigurationVersion.objects.get().number,
        "pattern": "house/*",
        "format": "kimi",
        "priority": 100,
        "note": "",
        "active": True,
    }
    url = f"/api/overrides/{body['id']}/"
    assert operator.get(url).json() == body
    assert operator.get(url)["etag"] == created["etag"] == f'"{body["version"]}"'
    changed = send_json(operator, "PATCH", url, {"format": "qwen", "note": "it moved"}).json()
    assert (changed["format"], changed["note"], changed["pattern"]) == (
        "qwen",
        "it moved",
        "house/*",
    )
    assert changed["version"] == body["version"] + 1
    assert newest(FormatOverride.objects.get()).history_user == User.objects.get(username="olga")
    assert operator.delete(url).status_code == 204
    assert operator.get(url).status_code == 404


def test_a_list_is_ordered_and_filtered_in_few_queries(operator, django_assert_max_num_queries):
    for number in range(20):
        FormatOverride.objects.create(pattern=f"m{number:02}", format="kimi", priority=50 - number)
    with django_assert_max_num_queries(6):
        found = operator.get("/api/overrides/?page_size=15").json()
    assert [row["pattern"] for row in found["results"]] == [f"m{n:02}" for n in range(19, 4, -1)]
    rest = operator.get(found["next"]).json()["results"]
    assert [row["pattern"] for row in rest] == [f"m{n:02}" for n in range(4, -1, -1)]
    (row,) = operator.get("/api/overrides/?pattern=m07").json()["results"]
    assert row["version"] == version_of(FormatOverride.objects.get(pattern="m07"))
    routes = operator.get("/api/routes/?upstream=demo").json()["results"]
    assert {route["upstream"] for route in routes} == {"demo"}
    assert operator.get("/api/overrides/?colour=red").status_code == 400


def test_lists_of_routes_and_keys_need_no_query_per_row(operator, django_assert_max_num_queries):
    demo = Upstream.objects.get()
    for number in range(20):
        fallback = ModelRoute.objects.first()
        ModelRoute.objects.create(pattern=f"m{number}", upstream=demo, fallback=fallback)
    for url in ("/api/routes/", "/api/keys/", "/api/upstreams/", "/api/formats/"):
        with django_assert_max_num_queries(6):
            assert operator.get(url).status_code == 200


def test_the_secrets_of_an_upstream_are_never_returned(operator):
    created = make_upstream(
        operator, key=CANARY, headers={"X-House-Token": HEADER_CANARY, "X-Title": "Athena"}
    )
    row = Upstream.objects.get(name="mine")
    assert (row.read_key(), row.headers["X-House-Token"]) == (CANARY, HEADER_CANARY)
    assert (created["key_hint"], created["headers"]) == (
        f"…{CANARY[-4:]}",
        {"X-House-Token": "[stored]", "X-Title": "Athena"},
    )
    url = f"/api/upstreams/{row.pk}/"
    responses = [json.dumps(created)]
    responses.append(
        send_json(operator, "PATCH", url, {"key": f"{CANARY}!", "active": False}).content.decode()
    )
    responses.append(
        send_json(
            operator, "PATCH", url, {"key": CANARY, "key_variable": "X_API_KEY"}
        ).content.decode()
    )
    responses.append(send_json(operator, "PATCH", url, {"key": f"{CANARY}\u201c"}).content.decode())
    responses.append(
        send_json(
            operator, "PATCH", url, {"headers": {"X-House-Token": f"{HEADER_CANARY}\n"}}
        ).content.decode()
    )
    responses.append(
        send_json(operator, "PATCH", url, {"headers": {"Host": HEADER_CANARY}}).content.decode()
    )
    responses.append(send_json(operator, "PATCH", url, {"key": [CANARY]}).content.decode())
    responses.append(send_json(operator, "PATCH", url, {"api_key": CANARY}).content.decode())
    for path in (url, f"{url}history/", "/api/upstreams/", "/api/resolve/?model=x"):
        responses.append(operator.get(path).content.decode())
    assert "not both" in responses[2]
    assert "an HTTP header cannot carry" in responses[3]
    for text in responses:
        assert CANARY not in text
        assert HEADER_CANARY not in text


def test_a_stored_header_is_kept_when_it_is_sent_back(operator):
    created = make_upstream(operator, headers={"X-House-Token": HEADER_CANARY})
    url = f"/api/upstreams/{created['id']}/"
    headers = {**created["headers"], "X-Title": "Athena"}
    assert send_json(operator, "PATCH", url, {"headers": headers}).json()["headers"] == headers
    row = Upstream.objects.get(name="mine")
    assert row.headers == {"X-House-Token": HEADER_CANARY, "X-Title": "Athena"}
    response = send_json(operator, "PATCH", url, {"headers": {"X-Other-Token": "[stored]"}})
    assert response.status_code == 400
    assert "'X-Other-Token'" in response.json()["detail"]
    assert send_json(operator, "PATCH", url, {"headers": {}}).json()["headers"] == {}


def test_a_key_and_a_variable_replace_each_other(operator):
    created = make_upstream(operator, key=CANARY)
    url = f"/api/upstreams/{created['id']}/"
    assert (
        send_json(operator, "PATCH", url, {"key_variable": "HOUSE_API_KEY"}).json()["key_hint"]
        == "$HOUSE_API_KEY"
    )
    assert Upstream.objects.get(name="mine").sealed_key == ""
    body = send_json(operator, "PATCH", url, {"key": "short"}).json()
    assert (body["key_hint"], body["key_variable"]) == ("stored", "")
    assert newest(Upstream.objects.get(name="mine")).history_change_reason == "the key was changed"
    assert send_json(operator, "PATCH", url, {"idle_timeout": 7}).json()["key_hint"] == "stored"
    assert send_json(operator, "PATCH", url, {"key": ""}).json()["key_hint"] == "none"


def test_a_route_names_its_upstream_and_its_fallback(operator):
    make_upstream(operator)
    first = make_route(operator, "first-*", upstream="mine")
    second = make_route(operator, "second-*", upstream="demo", fallback="first-*", max_tokens=9)
    assert (first["fallback"], second["upstream"], second["fallback"]) == (None, "demo", "first-*")
    url = f"/api/routes/{second['id']}/"
    assert send_json(operator, "PATCH", url, {"fallback": None}).json()["fallback"] is None
    assert send_json(operator, "PATCH", url, {"max_tokens": None}).json()["max_tokens"] is None
    for body, value in (({"upstream": "nope"}, "nope"), ({"fallback": "nope-*"}, "nope-*")):
        response = send_json(operator, "PATCH", url, body)
        assert (response.status_code, value in response.json()["detail"]) == (400, True)
    assert send_json(operator, "PATCH", url, {"upstream": None}).status_code == 400


def test_circular_fallbacks_are_rejected_by_the_api(operator):
    first = make_route(operator, "first-*", upstream="demo")
    make_route(operator, "second-*", upstream="demo", fallback="first-*")
    url = f"/api/routes/{first['id']}/"
    response = send_json(operator, "PATCH", url, {"fallback": "second-*"})
    assert response.status_code == 400
    assert "second-* falls back to this route" in response.json()["fields"]["fallback"][0]


def test_a_format_is_addressed_by_its_name(operator):
    url = "/api/formats/kimi/"
    assert operator.get(url).json()["format"] == "kimi"
    markers = {"SECTION_BEGIN": ["<|calls|>"]}
    body = send_json(operator, "PATCH", url, {"markers": markers, "strict": True}).json()
    assert (body["markers"], body["strict"]) == (markers, True)
    response = send_json(operator, "PATCH", url, {"markers": {"NOPE": ["<|x|>"]}})
    assert (response.status_code, "NOPE" in response.json()["detail"]) == (400, True)
    assert operator.get("/api/formats/klingon/").status_code == 404
    assert operator.delete(url).status_code == 405
    assert FormatSettings.objects.get(format="kimi").strict


def test_the_gateway_settings_are_one_row(operator):
    body = send_json(operator, "PATCH", "/api/settings/", {"ping_after": 3}).json()
    assert (body["ping_after"], body["default_route"]) == (3, "default")
    assert operator.get("/api/settings/").json() == body
    send_json(operator, "PATCH", "/api/settings/", {"default_route": "claude-*opus*"})
    assert GatewaySettings.objects.get().default_route.pattern == "claude-*opus*"
    assert operator.delete("/api/settings/").status_code == 405
    assert send_json(operator, "POST", "/api/settings/", {}).status_code == 405


@pytest.mark.parametrize(
    ("url", "body", "field", "value"),
    [
        ("upstreams", {"name": "two words", "base_url": "https://a.example"}, "name", "two words"),
        ("upstreams", {"name": "a", "base_url": "ftp://nowhere"}, "base_url", "ftp://nowhere"),
        (
            "upstreams",
            {"name": "a", "base_url": "https://a.example", "dialect": "x"},
            "dialect",
            "x",
        ),
        (
            "upstreams",
            {"name": "a", "base_url": "https://a.example", "idle_timeout": 0},
            "idle_timeout",
            "0",
        ),
        (
            "upstreams",
            {"name": "a", "base_url": "https://a.example", "idle_timeout": "nan"},
            "idle_timeout",
            "nan",
        ),
        (
            "upstreams",
            {"name": "a", "base_url": "https://a.example", "headers": []},
            "headers",
            "dict",
        ),
        (
            "upstreams",
            {"name": "a", "base_url": "https://a.example", "provider_preferences": {"a": 1}},
            "provider_preferences",
            "OpenRouter",
        ),
        ("routes", {"pattern": "a b", "upstream": "demo"}, "pattern", "a b"),
        ("routes", {"pattern": "a", "upstream": "demo", "max_tokens": -3}, "max_tokens", "-3"),
        ("routes", {"pattern": "a"}, "upstream", "required"),
        ("overrides", {"pattern": "(a+)+$", "format": "kimi"}, "pattern", "(a+)+$"),
        ("overrides", {"pattern": "a", "format": "klingon"}, "format", "klingon"),
        (
            "overrides",
            {"pattern": "a", "format": "kimi", "colour": "red"},
            "colour",
            "does not exist",
        ),
        ("overrides", {"pattern": "a", "format": "kimi", "id": 7}, "id", "does not exist"),
    ],
)
def test_invalid_values_are_rejected_and_named(operator, url, body, field, value):
    before = ConfigurationVersion.objects.get().number
    response = send_json(operator, "POST", f"/api/{url}/", body)
    assert response.status_code == 400, response.content
    assert response.json()["detail"].startswith(f"{field}: ")
    assert value in response.json()["detail"]
    assert list(response.json()["fields"]) == [field]
    assert ConfigurationVersion.objects.get().number == before


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_nan_and_infinity_are_rejected(operator, number):
    response = send_json(operator, "PATCH", "/api/settings/", {"ping_after": number})
    assert response.status_code == 400, response.content
    assert list(response.json()["fields"]) == ["ping_after"]


def test_a_duplicate_name_is_a_conflict(operator):
    response = send_json(
        operator, "POST", "/api/routes/", {"pattern": "default", "upstream": "demo"}
    )
    assert response.status_code == 409
    assert response.json()["detail"].startswith("pattern: ")
    assert '"default"' in response.json()["detail"]
    both = {"pattern": "default", "upstream": "demo", "fallback": "default", "listed_as": "x" * 300}
    assert send_json(operator, "POST", "/api/routes/", both).status_code == 400


def test_a_row_that_others_refer_to_is_not_deleted(operator):
    upstream = make_upstream(operator)
    first = make_route(operator, "first-*", upstream="mine")
    for number in range(3):
        make_route(operator, f"m{number}", upstream="mine", fallback="first-*")
    response = operator.delete(f"/api/upstreams/{upstream['id']}/")
    assert (response.status_code, response.json()["detail"]) == (
        409,
        "4 routes lead to it: first-*, m0, m1, m2.",
    )
    send_json(operator, "PATCH", "/api/settings/", {"default_route": "first-*"})
    response = operator.delete(f"/api/routes/{first['id']}/")
    assert (response.status_code, response.json()["detail"]) == (
        409,
        "3 routes fall back to it: m0, m1, m2. It is the default route.",
    )
    assert Upstream.objects.filter(name="mine").exists()


def test_an_edited_row_stops_following_the_environment(operator):
    route = ModelRoute.objects.get(pattern="claude-*opus*")
    assert route.from_environment
    url = f"/api/routes/{route.pk}/"
    assert send_json(operator, "PATCH", url, {}).json()["from_environment"]
    body = send_json(operator, "PATCH", url, {"upstream_model": "vendor/mine"}).json()
    assert (body["from_environment"], body["upstream_model"]) == (False, "vendor/mine")


def test_a_change_with_an_outdated_etag_is_rejected(operator):
    sam = token_client(staff_user(OPERATORS, SUPPORT, username="sam"))
    url = f"/api/routes/{ModelRoute.objects.get(pattern='default').pk}/"
    tag = operator.get(url)["etag"]
    assert send_json(sam, "PATCH", url, {"priority": 1}).status_code == 200
    late = operator.generic(
        "PATCH", url, '{"priority": 2}', "application/json", headers={"if-match": tag}
    )
    body = late.json()
    assert late.status_code == 412
    assert "sam changed it last" in body["detail"]
    assert body["changed_by"] == "sam"
    assert body["changed_at"][:10] in body["detail"]
    tag = f'"{body["version"]}"'
    assert tag == operator.get(url)["etag"]
    cases = [(tag, 200), (tag, 412), ("*", 200), ("17", 400), (f'W/{tag}, "0"', 412)]
    cases += [(f'"0{body["version"]}"', 412), (f'"{"1" * 5000}"', 412)]
    for header, status in cases:
        response = operator.generic(
            "PATCH", url, '{"priority": 2}', "application/json", headers={"if-match": header}
        )
        assert response.status_code == status, header
    assert operator.delete(url, headers={"if-match": '"1"'}).status_code == 412
    assert send_json(operator, "PATCH", url, {"priority": 3}).status_code == 200


def test_support_cannot_see_the_configuration():
    support = token_client(staff_user(SUPPORT))
    row = Upstream.objects.get()
    there, absent = support.get(f"/api/upstreams/{row.pk}/"), support.get("/api/upstreams/999/")
    assert (there.status_code, there.content) == (404, absent.content)
    assert support.get("/api/upstreams/").status_code == 404
