"""A key that is limited to models reaches no other, by whatever field or suffix it asks."""

import json

import pytest

from tests.support.chat import ask
from tests.support.client_keys import MAKE_KEY, key_of
from tests.support.upstream_answers import says

PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions"}
FORBIDDEN = "vendor/forbidden"


@pytest.fixture(autouse=True)
def _upstreams(both_dialects):
    """Every test here uses upstreams of both dialects."""


@pytest.fixture(params=PATHS)
def dialect(request):
    return request.param


@pytest.fixture
def limited(gateway, dialect):
    """A client whose key may use one pattern of models."""
    name = f"sk-athena-limited-to-{dialect}"
    with key_of(gateway, name, f"allowed_models=['{dialect}-standard-mine*']") as client:
        yield client
    gateway.edit(f"ClientKey.objects.filter(label={name!r}).delete()")


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("models.1", {"models": ["DIALECT-standard-mine", FORBIDDEN]}),
        ("fallbacks.0", {"fallbacks": [FORBIDDEN]}),
        ("fallbacks.0.model", {"fallbacks": [{"model": FORBIDDEN}]}),
        ("preset", {"preset": FORBIDDEN}),
        ("route", {"route": FORBIDDEN}),
        ("extra_body.Model", {"extra_body": {"Model": FORBIDDEN}}),
        ("plugins.0.model", {"plugins": [{"id": "fusion", "model": FORBIDDEN}]}),
        ("tools.0.model", {"tools": [{"type": "advisor_20260301", "model": FORBIDDEN}]}),
    ],
    ids=str,
)
def test_a_relayed_field_with_another_model_is_refused_by_name(
    gateway, upstream, limited, client, dialect, path, fields
):
    """Fault W5."""
    model = f"{dialect}-standard-mine"
    script = upstream.script(model, says(dialect, "Hi"), says(dialect, "Hi"))
    body = ask(model, **json.loads(json.dumps(fields).replace("DIALECT", dialect)))
    refused = limited.post(PATHS[dialect], json=body)
    assert (refused.status_code, refused.headers["x-athena-error"]) == (403, "model_not_allowed")
    assert f"{FORBIDDEN!r}, named in `{path}`" in refused.json()["error"]["message"]
    assert ("type" in refused.json()) == (dialect == "anthropic")
    assert not script.requests
    assert client.post(PATHS[dialect], json=body).status_code == 200, "an unlimited key may"


def test_allowed_models_in_relayed_fields_pass_unchanged(upstream, limited, dialect):
    model = f"{dialect}-standard-mine"
    script = upstream.script(model, says(dialect, "Hi"))
    body = json.dumps(ask(model, models=[model, f"{model}-2"], provider={"order": ["x"]})).encode()
    assert limited.post(PATHS[dialect], content=body).status_code == 200
    assert script.last.body == body


@pytest.mark.parametrize("name", ["Model", "MODELS", "messageſ"])
def test_a_field_that_differs_only_by_case_is_refused_for_every_key(
    client, upstream, dialect, name
):
    """Fault W5: a router that ignores case would use it."""
    model = f"{dialect}-standard-case"
    script = upstream.script(model, says(dialect, "Hi"))
    refused = client.post(PATHS[dialect], json=ask(model, **{name: FORBIDDEN}))
    assert (refused.status_code, refused.headers["x-athena-error"]) == (400, "invalid_request")
    assert refused.json()["error"]["message"].startswith(f"{name}: is not a field")
    assert not script.requests


@pytest.mark.parametrize(
    ("suffix", "status"),
    [("", 200), ("[1m]", 200), ("[1M]", 200), (",vendor/forbidden", 403), ("@preset/x", 403)],
)
def test_suffixes_of_a_model_name(upstream, limited, dialect, suffix, status):
    """Faults C12 and W5: `[1m]` is no part of the name; a list or a preset names other models."""
    model = f"{dialect}-standard-mine"
    script = upstream.script(model, says(dialect, "Hi"))
    answer = limited.post(PATHS[dialect], json=ask(f"{model}{suffix}"))
    assert answer.status_code == status
    assert [json.loads(request.body)["model"] for request in script.requests] == [model] * (
        status == 200
    )


def test_a_key_limited_to_one_name_may_use_it_with_long_context(gateway, upstream):
    """Fault C12."""
    model = "anthropic-standard-long"
    gateway.edit(MAKE_KEY.format("sk-athena-long-one", f"allowed_models=['{model}']"))
    gateway.edit(MAKE_KEY.format("sk-athena-long-two", f"allowed_models=['{model}[1m]']"))
    for key in ("sk-athena-long-one", "sk-athena-long-two"):
        for name in (model, f"{model}[1m]"):
            upstream.script(model, says("anthropic", "Hi"))
            with gateway.client(**{"x-api-key": key}) as client:
                assert client.post("/v1/messages", json=ask(name)).status_code == 200
                assert client.get(f"/v1/models/{name}").status_code == 200
                assert client.post("/v1/messages", json=ask(f"{model}-2")).status_code == 403


@pytest.mark.parametrize("query", ["model=NAME", "beta=true;model=NAME", "%6dodel=NAME;x"])
def test_a_model_in_the_query_is_checked(upstream, limited, dialect, query):
    """Fault W5: LiteLLM reads `?model=`, the query is forwarded, and old servers split it at `;`."""
    model = f"{dialect}-standard-mine"
    upstream.script(model, says(dialect, "Hi"))
    url = f"{PATHS[dialect]}?{query.replace('NAME', FORBIDDEN)}"
    refused = limited.post(url, json=ask(model))
    assert refused.status_code == 403
    assert "named in `model`" in refused.json()["error"]["message"]
    assert limited.post(f"{PATHS[dialect]}?beta=true", json=ask(model)).status_code == 200


@pytest.mark.parametrize("model", ["NAME ", " NAME", "NAME,NAME", "NAME, NAME"])
def test_another_spelling_of_an_allowed_name_does_not_reach_the_default_route(gateway, model):
    """Fault W5: a space or a repetition was allowed, and matched no route but the default one."""
    name = "anthropic-standard-exact"
    label = f"sk-athena-{model.replace(' ', '-')}-exact"
    with key_of(gateway, label, f"allowed_models=['{name}']") as limited:
        asked = limited.post("/v1/messages", json=ask(model.replace("NAME", name)))
    assert (asked.status_code, asked.headers["x-athena-error"]) == (403, "model_not_allowed")
