"""Export and import of the configuration as a document."""

import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from django.contrib.auth.models import User
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from formats import FORMATS
from proxy.configuration.document.export import (
    _Dumper,
    current_document,
    current_version,
    export,
    render,
)
from proxy.configuration.document.import_document import (
    VersionChanged,
    preview_import,
    run_import,
)
from proxy.configuration.document.problems import InvalidDocument
from proxy.configuration.document.schema import TABLES
from proxy.configuration.document.yaml_nodes import compose
from proxy.configuration.editing import editing
from proxy.configuration.upstream import DEMO_URL
from proxy.models import (
    CONFIGURATION,
    ClientKey,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Upstream,
)
from proxy.models.keys import digest_of, prefix_of
from tests.support.stored_exchanges import configure

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
CANARY = "sk-canary-that-must-stay-secret"
CLIENT = "sk-athena-canary-of-a-client-that-is-as-long-as-others"


@pytest.fixture(autouse=True)
def _configured(settings, tmp_path, monkeypatch):
    settings.DATA_DIR = tmp_path
    monkeypatch.delenv("HOUSE_API_KEY", raising=False)
    monkeypatch.setenv("OPENROUTER_API_KEY", CANARY)
    configure()


def client_key(label, secret=CLIENT, **fields):
    row = ClientKey(label=label, **fields)
    row.adopt(secret)
    row.save()
    return row


@pytest.fixture
def full_configuration():
    """A configuration with a value in every field."""
    house = Upstream(
        name="house",
        base_url="https://house.example/v1",
        headers={"x-team": "harbor", "X-House-Token": CANARY},
        connect_timeout=2.5,
        idle_timeout=60,
        reuse_connections=False,
    )
    house.store_key(CANARY)
    house.save()
    router = Upstream.objects.create(
        name="router",
        service="openrouter",
        base_url="https://openrouter.ai/api/v1",
        key_variable="OPENROUTER_API_KEY",
        provider_preferences={"order": ["a", "b"], "max_price": {"prompt": 0.5}, "zdr": True},
        active=False,
    )
    spare = ModelRoute.objects.create(pattern="spare", upstream=house, sample_calls=0)
    ModelRoute.objects.create(
        pattern="*",
        upstream=router,
        upstream_model="vendor/model",
        listed_as="any",
        priority=-5,
        max_tokens=8192,
        context_window=200_000,
        thinking_tokens=2048,
        reasoning="none",
        parallel_calls=False,
        sample_calls=0.25,
        fallback=spare,
        active=False,
    )
    FormatOverride.objects.create(
        pattern="house/*", format="kimi", priority=1, note="Ω: it is “kimi” # really", active=False
    )
    FormatSettings.objects.filter(format="kimi").update(
        buffer_limit=4096,
        strict=True,
        split_thinking="marked",
        markers={"SECTION_BEGIN": ["<|calls|>"]},
        context_warning=5000,
    )
    gateway = GatewaySettings.objects.get()
    gateway.default_route, gateway.ping_after, gateway.sample_others = spare, 2.5, 0.125
    gateway.save()
    client_key(
        "ada's laptop",
        owner=User.objects.get(username="root"),
        allowed_models=["claude-*", "*"],
        requests_per_minute=60,
        max_streams=4,
        capture_content=False,
        expires_at=datetime(2027, 1, 31, 12, 30, 15, 250_000, tzinfo=UTC),
        revoked_at=NOW,
    )


def text():
    return export()[0]


def exported():
    return yaml.safe_load(text())


def dump(document):
    return yaml.safe_dump(document, allow_unicode=True)


def import_now(document, **options):
    document = document if isinstance(document, str) else dump(document)
    return run_import(document, now=NOW, **{"reason": "test", **options})


def problems(document):
    """The problems of a document without their positions. Checks that nothing was changed."""
    before, number = text(), current_version()
    with pytest.raises(InvalidDocument) as caught:
        import_now(document)
    assert (text(), current_version()) == (before, number)
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


def changes(report):
    return [
        (
            change.section,
            change.name,
            change.kind,
            [(f.name, f.before, f.after) for f in change.fields],
        )
        for change in report.changes
    ]


def test_an_export_has_every_field_and_no_secret(full_configuration):
    document = exported()
    assert document["athena"] == 1
    assert document["gateway"] == {
        "default_route": "spare",
        "ping_after": 2.5,
        "sample_others": 0.125,
    }
    assert document["upstreams"][1:] == [
        {
            "name": "house",
            "base_url": "https://house.example/v1",
            "key": "stored",
            "headers": {"X-House-Token": "stored", "x-team": "harbor"},
            "connect_timeout": 2.5,
            "idle_timeout": 60,
            "reuse_connections": False,
        },
        {
            "name": "router",
            "service": "openrouter",
            "base_url": "https://openrouter.ai/api/v1",
            "key": "$OPENROUTER_API_KEY",
            "provider_preferences": {
                "max_price": {"prompt": 0.5},
                "order": ["a", "b"],
                "zdr": True,
            },
            "active": False,
        },
    ]
    assert document["routes"][0] == {
        "pattern": "*",
        "upstream": "router",
        "upstream_model": "vendor/model",
        "listed_as": "any",
        "priority": -5,
        "max_tokens": 8192,
        "context_window": 200_000,
        "thinking_tokens": 2048,
        "reasoning": "none",
        "parallel_calls": False,
        "sample_calls": 0.25,
        "fallback": "spare",
        "active": False,
    }
    assert document["routes"][-1] == {"pattern": "spare", "upstream": "house", "sample_calls": 0}
    assert [row["format"] for row in document["formats"]] == sorted(FORMATS)
    assert document["keys"][0] == {
        "label": "ada's laptop",
        "prefix": prefix_of(CLIENT),
        "owner": "root",
        "allowed_models": ["claude-*", "*"],
        "requests_per_minute": 60,
        "max_streams": 4,
        "capture_content": False,
        "expires_at": "2027-01-31T12:30:15.250000Z",
        "revoked": True,
    }
    assert CANARY not in text()
    assert CLIENT not in text()
    assert digest_of(CLIENT) not in text()
    assert Upstream.objects.get(name="house").sealed_key not in text()


def test_every_column_is_exported_or_left_out_on_purpose():
    left_out = {
        "id",
        "created_at",
        "digest",
        "from_environment",
        "key_variable",
        "last_used_at",
        "replaces",
        "revoked_at",
        "sealed_key",
    }
    assert {table.model for table in TABLES} == set(CONFIGURATION)
    for table in TABLES:
        columns = {field.name for field in table.model._meta.fields}
        assert columns - {field.name for field in table.fields} <= left_out, table.section


def test_the_same_configuration_gives_the_same_bytes(full_configuration):
    before = text()
    row = Upstream.objects.get(name="router")
    row.provider_preferences = dict(reversed(row.provider_preferences.items()))
    row.save()
    route = ModelRoute.objects.get(pattern="*")
    route.delete()
    route.pk = None
    route.save()
    assert text() == before


def test_importing_an_export_changes_nothing(full_configuration):
    before = text()
    records = {model: model.history.count() for model in CONFIGURATION}
    report = import_now(before)
    assert (report.changes, report.effects) == ([], [])
    assert report.version == current_version()
    assert {model: model.history.count() for model in CONFIGURATION} == records
    assert text() == before


def spoil():
    """Change everything that an import can restore."""
    GatewaySettings.objects.update(default_route=None, ping_after=1, sample_others=1, drain_time=3)
    ModelRoute.objects.update(fallback=None)
    ModelRoute.objects.all().delete()
    other = Upstream.objects.create(name="other", base_url="https://other.example")
    ModelRoute.objects.create(pattern="other", upstream=other)
    ModelRoute.objects.create(pattern="spare", upstream=other, priority=7)
    Upstream.objects.filter(name="router").delete()
    Upstream.objects.update(dialect="anthropic")
    Upstream.objects.filter(name="house").update(base_url="https://house.example/else")
    FormatOverride.objects.all().delete()
    FormatOverride.objects.create(pattern="another", format="qwen")
    FormatSettings.objects.update(buffer_limit=2048, strict=True, markers={}, context_warning=None)
    ClientKey.objects.update(
        owner=None, allowed_models=["x"], capture_content=True, expires_at=None, max_streams=1
    )


def test_a_round_trip_restores_everything(full_configuration):
    before = text()
    spoil()
    report = import_now(before)
    assert text() == before
    assert Upstream.objects.get(name="house").read_key() == CANARY
    assert Upstream.objects.get(name="house").headers["X-House-Token"] == CANARY
    assert ("upstreams", "other") in {(c.section, c.name) for c in report.changes}
    assert {record.history_change_reason for record in ModelRoute.history.all()[:5]} == {"test"}


names = st.text("abcxyz*?[]-./:", min_size=1, max_size=8)
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | words
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(words.filter(len), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def configurations(draw):
    slugs = draw(st.lists(st.sampled_from("abcde"), min_size=1, unique=True))
    upstreams = [
        {
            "name": slug,
            "service": "openrouter",
            "base_url": "https://example.org/v1",
            "provider_preferences": draw(
                st.dictionaries(words.filter(len), json_values, max_size=2)
            ),
            "key_variable": draw(st.sampled_from(["", "HOUSE_API_KEY"])),
            "headers": draw(
                st.dictionaries(st.sampled_from(["x-a", "X-B"]), st.text("a: #'", max_size=5))
            ),
            "idle_timeout": draw(st.floats(0.1, 3600)),
            "active": draw(st.booleans()),
        }
        for slug in slugs
    ]
    routes = []
    for pattern in draw(st.lists(names, unique=True, max_size=5)):
        routes.append(
            {
                "pattern": pattern,
                "upstream": draw(st.sampled_from(slugs)),
                "upstream_model": draw(words),
                "priority": draw(st.integers(-1000, 1000)),
                "sample_calls": draw(st.none() | st.floats(0, 1)),
                "fallback": draw(st.none() | st.sampled_from([r["pattern"] for r in routes]))
                if routes
                else None,
                "active": draw(st.booleans()),
            }
        )
    overrides = [
        {"pattern": pattern, "format": draw(st.sampled_from(sorted(FORMATS))), "note": draw(words)}
        for pattern in draw(st.lists(names, unique=True, max_size=3))
    ]
    return upstreams, routes, overrides


@given(configurations(), configurations())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_importing_an_export_restores_any_configuration(one, other):
    with editing(dry_run=True):
        _make(one)
        wanted = text()
        assert import_now(wanted).changes == []
        _make(other)
        import_now(wanted)
        assert text() == wanted


def _make(configuration):
    GatewaySettings.objects.update(default_route=None)
    ModelRoute.objects.update(fallback=None)
    for model in (ModelRoute, Upstream, FormatOverride):
        model.objects.all().delete()
    upstreams, routes, overrides = configuration
    for fields in upstreams:
        Upstream.objects.create(**fields)
    for fields in routes:
        upstream = Upstream.objects.get(name=fields["upstream"])
        fallback = ModelRoute.objects.filter(pattern=fields["fallback"]).first()
        ModelRoute.objects.create(**{**fields, "upstream": upstream, "fallback": fallback})
    for fields in overrides:
        FormatOverride.objects.create(**fields)


def test_an_import_reports_changed_fields_and_affected_models():
    document = exported()
    by_pattern = {row["pattern"]: row for row in document["routes"]}
    by_pattern["claude-*opus*"]["upstream_model"] = "moonshotai/kimi-k2.5"
    by_pattern["claude-*opus*"]["priority"] = 50
    document["routes"].remove(by_pattern["claude-*haiku*"])
    document["overrides"] = [{"pattern": "qwen/*", "format": "standard"}]
    report = preview_import(dump(document), now=NOW)
    assert changes(report) == [
        (
            "routes",
            "claude-*opus*",
            "changed",
            [
                ("upstream_model", "deepseek/deepseek-v3.2", "moonshotai/kimi-k2.5"),
                ("priority", "100", "50"),
            ],
        ),
        (
            "routes",
            "claude-*haiku*",
            "removed",
            [
                ("upstream", "demo", ""),
                ("upstream_model", "qwen/qwen3-coder", ""),
                ("listed_as", "claude-haiku", ""),
            ],
        ),
        ("overrides", "qwen/*", "added", [("format", "", "standard")]),
    ]
    effects = {effect.model: f"{effect.before} → {effect.after}" for effect in report.effects}
    assert effects["claude-opus"] == (
        "demo: deepseek/deepseek-v3.2 as deepseek → demo: moonshotai/kimi-k2.5 as kimi"
    )
    assert effects["qwen/qwen3-coder"].endswith("as standard")
    assert ModelRoute.objects.filter(pattern="claude-*haiku*").exists(), "a dry run changes nothing"
    done = import_now(document, version=report.version)
    assert (done.changes, done.effects) == (report.changes, report.effects)
    assert preview_import(dump(document), now=NOW).changes == []


def test_only_changed_rows_stop_following_the_environment():
    document = exported()
    document["routes"][0]["max_tokens"] = 4096
    changed = document["routes"][0]["pattern"]
    import_now(document)
    for route in ModelRoute.objects.all():
        assert route.from_environment == (route.pattern != changed), route
    assert Upstream.objects.get(name="demo").from_environment


def test_an_import_is_rejected_if_the_configuration_has_changed():
    report = preview_import(text(), now=NOW)
    FormatOverride.objects.create(pattern="x", format="kimi")
    with pytest.raises(VersionChanged):
        import_now({"athena": 1, "overrides": []}, version=report.version)
    assert FormatOverride.objects.count() == 1


def test_an_import_replaces_present_sections_and_keeps_absent_ones(full_configuration):
    before = exported()
    import_now({"athena": 1})
    assert exported() == before
    import_now({"athena": 1, "overrides": [], "formats": [], "gateway": {"default_route": "spare"}})
    after = exported()
    assert after["overrides"] == []
    assert after["formats"] == [{"format": name} for name in sorted(FORMATS)]
    assert after["gateway"] == {"default_route": "spare"}
    assert {name: after[name] for name in ("upstreams", "routes", "keys")} == {
        name: before[name] for name in ("upstreams", "routes", "keys")
    }


def test_invalid_rows_of_absent_sections_do_not_stop_an_import():
    ModelRoute.objects.update(active=False)
    Upstream.objects.update(provider_preferences=7)
    import_now({"athena": 1, "overrides": [{"pattern": "x", "format": "kimi"}]})
    assert FormatOverride.objects.exists()


def test_a_route_moves_to_another_upstream_while_its_old_one_is_deleted():
    document = exported()
    document["upstreams"] = [{"name": "fresh", "base_url": "https://fresh.example/v1"}]
    for row in document["routes"]:
        row["upstream"] = "fresh"
    import_now(document)
    assert [row.name for row in Upstream.objects.all()] == ["fresh"]
    assert {route.upstream.name for route in ModelRoute.objects.all()} == {"fresh"}


def test_routes_can_swap_their_settings(full_configuration):
    document = exported()
    one, other = document["routes"][1:3]
    one["pattern"], other["pattern"] = other["pattern"], one["pattern"]
    import_now(document)
    assert preview_import(dump(document), now=NOW).changes == []


def test_fallbacks_can_be_reversed_and_refer_to_later_rows(full_configuration):
    document = exported()
    rows = {row["pattern"]: row for row in document["routes"]}
    del rows["*"]["fallback"]
    rows["spare"]["fallback"] = "*"
    rows["*"]["fallback"] = "later"
    document["routes"].append({"pattern": "later", "upstream": "house", "priority": 900})
    import_now(document)
    assert ModelRoute.objects.get(pattern="spare").fallback.fallback.pattern == "later"


def test_routes_that_are_fallbacks_of_each_other_are_deleted_together(full_configuration):
    for first, second in (("*", "spare"), ("default", "*")):
        row = ModelRoute.objects.get(pattern=first)
        row.fallback = ModelRoute.objects.get(pattern=second)
        row.save()
    import_now({"athena": 1, "gateway": {}, "routes": []})
    assert not ModelRoute.objects.exists()
    record = ModelRoute.history.get(pattern="default", history_type="-")
    assert record.fallback_id is not None, "the history still has the fallback"


def test_circular_fallbacks_in_a_document_are_rejected(full_configuration):
    document = exported()
    document["routes"] = [
        {"pattern": "a", "upstream": "demo", "fallback": "b"},
        {"pattern": "b", "upstream": "demo", "fallback": "a"},
        {"pattern": "spare", "upstream": "demo", "fallback": "spare"},
    ]
    assert problems(document) == [
        f"routes[{number}].fallback: the fallbacks form a circle" for number in range(3)
    ]


def test_all_problems_of_a_document_are_reported_at_once():
    wrong = """\
athena: 1
gateway:
  default_route: nowhere
  ping_after: 1000
  drain_time: soon
upstreams:
- name: demo
  base_url: ftp://nowhere
  key: sk-or-v1-a-key-itself
- name: two words
  base_url: https://example.org
  headers: {authorization: x}
- base_url: https://example.org
routes:
- pattern: a
  upstream: gone
  max_tokens: 0
- pattern: b
  upstream: demo
  patern: x
- pattern: b
  upstream: demo
- pattern: c
  upstream: demo
  fallback: gone
  reasoning: 'no'
- seven
overrides:
- pattern: a
  format: klingon
  priority: 1.5
formats:
- format: standard
  markers: {SECTION_BEGIN: [x]}
keys: none
models: []
"""
    with pytest.raises(InvalidDocument) as caught:
        import_now(wrong)
    assert [str(problem) for problem in caught.value.problems] == [
        "line 3, column 3: gateway.default_route: the route 'nowhere' does not exist",
        "line 4, column 3: gateway.ping_after: 1000: Ensure this value is less than or equal to 600.",
        "line 5, column 3: gateway.drain_time: it must be a number, not 'soon'",
        "line 8, column 3: upstreams[0].base_url: 'ftp://nowhere' is not a valid base URL: it "
        "must start with http:// or https://.",
        "line 9, column 3: upstreams[0].key: it must be `stored`, or `$NAME`, the name of an "
        "environment variable; never write a key itself here",
        "line 10, column 3: upstreams[1].name: 'two words': Enter a valid “slug” consisting of "
        "letters, numbers, underscores or hyphens.",
        "line 12, column 3: upstreams[1].headers: 'authorization' may carry a secret, which must "
        "not be in a document; write `stored`, and enter the value in the admin",
        "line 13, column 3: upstreams[2].name: this field is missing",
        "line 16, column 3: routes[0].upstream: the upstream 'gone' does not exist",
        "line 17, column 3: routes[0].max_tokens: 0: Ensure this value is greater than or equal to 1.",
        "line 20, column 3: routes[1].patern: this field does not exist",
        "line 21, column 3: routes[2].pattern: 'b' appears twice",
        "line 25, column 3: routes[3].fallback: the route 'gone' does not exist",
        "line 26, column 3: routes[3].reasoning: Value 'no' is not a valid choice.",
        "line 27, column 3: routes[4]: it must be a mapping",
        "line 30, column 3: overrides[0].format: The format 'klingon' does not exist.",
        "line 31, column 3: overrides[0].priority: it must be a whole number, not 1.5",
        "line 34, column 3: formats[0].markers: the format standard has no markers",
        "line 35, column 1: keys: it must be a list; write `[]` for an empty one",
        "line 36, column 1: models: this section does not exist",
    ]


def test_a_missing_version_is_reported_with_all_other_problems():
    """N10"""
    wrong = "upstreams:\n- name: a b\n  base_url: http://\nsurprise: 1\n"
    messages = " ".join(problems(wrong))
    for part in ("`athena: 1`", "upstreams[0].name", "upstreams[0].base_url", "surprise"):
        assert part in messages


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("", "the document is empty"),
        ("# nothing", "the document is empty"),
        ("[]", "a document must be a mapping"),
        ("upstreams: []", "`athena: 1`, the version of the document's format, is missing"),
        ("athena: 2", "reads only version 1"),
        ("athena: true", "reads only version 1"),
        ("athena: [", "this is not valid YAML"),
        ("athena: 1\n\tx: 1", "this is not valid YAML"),
        ("athena: 1\nx: \x07", "this is not valid YAML"),
        ("athena: 1\n---\nathena: 1", "a second document"),
        ("athena: 1\nroutes: &a []", "anchors and aliases"),
        ("athena: 1\nroutes: *a", "anchors and aliases"),
        ("athena: 1\nroutes: !!python/object/apply:os.system [x]", "tags are not allowed"),
        ("athena: !!int 1", "tags are not allowed"),
        ("athena: 1\nathena: 1", "this name appears twice"),
        ("athena: 1\nroutes: []\nroutes: []", "this name appears twice"),
        ("athena: 1\nroutes: " + "[" * 30 + "]" * 30, "deeper than 20 levels"),
        ("athena: 1\nroutes: " + "[" * 500_000, "deeper than 20 levels"),
        ("athena: 1\nroutes: [" + "1," * 60_000 + "]", "more than 50,000 values"),
        ("athena: 1 #" + "x" * 2**20, "the maximum is 1,048,576"),
        ("athena: 1\ngateway: {1: 2}", "put it in quotes"),
        ("athena: 1\ngateway: {[]: 2}", "put it in quotes"),
        ("athena: 1\n<<: {routes: []}", "this section does not exist"),
        ("athena: 1\ngateway: {ping_after: .nan}", "it must be a number, not '.nan'"),
        ("athena: 1\ngateway: {ping_after: 1.0e+999}", "it must be a number"),
        ("athena: 1\ngateway: {ping_after: true}", "it must be a number, not true"),
        ("athena: 1\ngateway: {exchange_days: " + "9" * 5000 + "}", "at most 18 digits"),
        ("athena: 1\ngateway: {exchange_days: 999999999999999999}", "is too large"),
        ("athena: 1\ngateway: {capture_content: yes}", "it must be true or false, not 'yes'"),
        ("athena: 1\ngateway: {ping_after: }", "it must be a number, not empty"),
        ('athena: 1\noverrides: [{pattern: a, format: kimi, note: "\\0"}]', "cannot be stored"),
        ('athena: 1\noverrides: [{pattern: a, format: kimi, note: "\\ud800"}]', "th"),
        ("athena: 1\noverrides: [{pattern: a, format: kimi, note: 7}]", "put it in quotes"),
        ("athena: 1\noverrides:", "write `[]` for an empty one"),
        ("athena: 1\nupstreams: []", "'default' needs it"),
        ("athena: 1\nroutes: []", "the default route 'default' is missing"),
        ("athena: 1\nroutes: [{pattern: default, upstream: demo, active: false}]", "is not active"),
        (
            "athena: 1\ngateway: {default_route: a}\n"
            "routes: [{pattern: a, upstream: demo, active: false}]",
            "gateway.default_route: 'a' is not active",
        ),
        (
            "athena: 1\nupstreams: [{name: a, base_url: 'https://a', headers: []}]",
            "a mapping, not a list",
        ),
        (
            "athena: 1\nupstreams: [{name: a, base_url: 'https://a', key: [stored]}]",
            "never write a key itself here",
        ),
        (
            "athena: 1\nupstreams: [{name: a, base_url: 'https://a', provider_preferences: {a: 1}}]",
            "Only OpenRouter",
        ),
    ],
)
def test_an_invalid_document_is_rejected(document, message):
    assert any(message in problem for problem in problems(document)), problems(document)


def test_a_document_that_is_not_utf8_is_rejected():
    assert problems("athena: 1\n# \udc80") == [": the document is not valid UTF-8"]


plain_yaml = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["demo", "default", "stored", "$HOME", "kimi", "2026-11-17", "first"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def sections():
    """Documents with valid sections and arbitrary values."""
    parts = {}
    for table in TABLES:
        fields = {field.name: plain_yaml for field in table.fields}
        rows = st.fixed_dictionaries({}, optional=fields) | plain_yaml
        parts[table.section] = (
            rows if not table.identity else st.lists(rows, max_size=3)
        ) | plain_yaml
    return st.fixed_dictionaries({"athena": st.just(1)}, optional=parts)


@given(sections() | plain_yaml)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_document_is_imported_or_rejected(document):
    with editing(dry_run=True):
        try:
            import_now(dump(document))
        except InvalidDocument:
            pass
        else:
            assert import_now(text()).changes == []


@given(st.text(max_size=200) | st.text("athen: 1[]{}&*!|>-'\"\n#%@", max_size=60))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_parsed_or_rejected(written):
    with suppress(InvalidDocument):
        compose(written)


@given(json_values)
def test_exported_values_are_parsed_back_unchanged(value):
    node, problems = compose(yaml.dump({"x": value}, Dumper=_Dumper, allow_unicode=True))
    assert problems == []
    assert json.dumps(node.plain(), sort_keys=True) == json.dumps({"x": value}, sort_keys=True)


@pytest.mark.parametrize("number", [1.5e18, 10**17 + 1, -0.0, 2.0, 1e-9, 1e300, 1.7e308, 7, True])
def test_numbers_are_exported_alike_on_every_database(number):
    row = Upstream(name="n", service="openrouter", base_url="https://n.example")
    row.provider_preferences = {"x": number}
    row.save()
    before, number = text(), current_version()
    import_now(before)
    assert (text(), current_version()) == (before, number)


def house_document(**fields):
    return {
        "athena": 1,
        "upstreams": [
            {"name": "demo", "base_url": DEMO_URL, "key": "stored"},
            {"name": "house", "base_url": "https://house.example/v1", **fields},
        ],
    }


def test_a_stored_upstream_key_is_kept_and_a_missing_one_is_remarked(full_configuration):
    row = Upstream.objects.get(name="house")
    ModelRoute.objects.exclude(upstream=row).update(upstream=row)
    import_now(house_document(key="stored"))
    row.refresh_from_db()
    assert row.read_key() == CANARY
    report = import_now(house_document(key="$HOUSE_API_KEY"))
    row.refresh_from_db()
    assert (row.sealed_key, row.key_variable) == ("", "HOUSE_API_KEY")
    assert report.remarks == [
        "The upstream 'house': its stored key was deleted.",
        "The upstream 'house': the environment variable HOUSE_API_KEY is not set here.",
    ]
    report = import_now(house_document(key="stored", headers={"x-new-token": "stored"}))
    row.refresh_from_db()
    assert (row.key_variable, row.headers) == ("", {})
    assert report.remarks == [
        "The upstream 'house' has no stored key here. Enter it.",
        "The upstream 'house' has no stored value for the header 'x-new-token'. Enter it.",
    ]


def test_leaving_out_the_key_of_an_upstream_removes_it(full_configuration, monkeypatch):
    ModelRoute.objects.update(upstream=Upstream.objects.get(name="house"))
    report = import_now(house_document())
    assert not Upstream.objects.get(name="house").sealed_key
    assert ("key", "stored", "null") in [c for row in changes(report) for c in row[3]]


def key_document(*rows):
    return {"athena": 1, "keys": list(rows)}


def test_listed_client_keys_are_updated_and_others_are_kept(full_configuration):
    client_key("another", CLIENT + "-2")
    row = client_key("phone", CLIENT + "-3")
    import_now(
        key_document({"label": "phone", "prefix": row.prefix, "max_streams": 2, "owner": "root"})
    )
    row.refresh_from_db()
    assert (row.max_streams, row.owner.username) == (2, "root")
    assert ClientKey.objects.filter(label="another").exists()
    import_now(key_document({"label": "phone", "prefix": row.prefix, "revoked": True}))
    row.refresh_from_db()
    assert (row.max_streams, row.revoked_at) == (None, NOW)


def test_a_revoked_key_stays_revoked(full_configuration):
    report = import_now(key_document({"label": "ada's laptop", "prefix": prefix_of(CLIENT)}))
    assert ClientKey.objects.get(label="ada's laptop").revoked_at == NOW
    assert report.remarks == ["The key 'ada's laptop' (sk-athena-canary…) stays revoked."]


def test_an_unknown_client_key_is_created_from_a_variable_or_skipped(monkeypatch):
    wanted = key_document(
        {"label": "ci", "key": "$HOUSE_API_KEY", "allowed_models": ["claude-*"]}, {"label": "x"}
    )
    assert import_now(wanted).remarks == [
        "The key 'ci': the environment variable HOUSE_API_KEY is not set here.",
        "The key 'ci' was skipped: it does not exist here.",
        "The key 'x' was skipped: it does not exist here.",
    ]
    monkeypatch.setenv("HOUSE_API_KEY", CLIENT)
    import_now(wanted)
    row = ClientKey.objects.get(label="ci")
    assert (row.digest, row.allowed_models) == (digest_of(CLIENT), ["claude-*"])
    assert import_now(wanted).changes == []
    assert problems(key_document({"label": "other", "key": "$HOUSE_API_KEY"})) == [
        "keys[0].label: 'other': the key in $HOUSE_API_KEY already exists here as 'ci'"
    ]
    assert problems(key_document({"label": "ci", "key": "$HOUSE_API_KEY", "prefix": "sk"})) == [
        "keys[0].prefix: 'sk': the key in $HOUSE_API_KEY has another prefix"
    ]
    monkeypatch.setenv("HOUSE_API_KEY", "a b")
    assert problems(key_document({"label": "spaced", "key": "$HOUSE_API_KEY"})) == [
        "keys[0].key: $HOUSE_API_KEY: A client key needs at least 8 ASCII characters and no spaces."
    ]


@pytest.mark.parametrize(
    "name", ["ATHENA_SECRET_KEY", "ATHENA_CLIENT_KEY", "DATABASE_URL", "REDIS_URL"]
)
def test_the_gateways_own_secrets_cannot_be_used_as_keys(monkeypatch, name):
    monkeypatch.setenv(name, "the-canary-of-the-gateway-itself")
    document = f"""
athena: 1
upstreams:
- name: demo
  base_url: http://elsewhere.example/v1
  key: ${name}
keys:
- label: mine
  key: ${name}
"""
    messages = problems(document)
    assert [line.partition(":")[0] for line in messages] == ["upstreams[0].key", "keys[0].key"]
    assert all("is a variable of the gateway itself" in line for line in messages)
    assert "the-canary" not in " ".join(messages)


def test_client_keys_with_the_same_label_and_prefix_are_skipped(full_configuration):
    for number in (1, 2):
        client_key("twin", f"{CLIENT}-{number}", max_streams=number)
    before = text()
    report = import_now(before)
    assert report.changes == []
    assert (
        report.remarks
        == ["The key 'twin' ('sk-athena-canary') was skipped: several keys match here."] * 2
    )
    row = {"label": "ada's laptop", "prefix": prefix_of(CLIENT)}
    assert problems(key_document(row, dict(row))) == ["keys[1].label: 'ada's laptop' appears twice"]
    assert problems(key_document(row | {"owner": "nobody"})) == [
        "keys[0].owner: the user 'nobody' does not exist"
    ]


def test_a_document_can_be_imported_into_an_empty_database(full_configuration):
    wanted = text()
    GatewaySettings.objects.all().delete()
    ModelRoute.objects.update(fallback=None)
    for model in (ModelRoute, *CONFIGURATION):
        model.objects.all().delete()
    assert "gateway" not in exported()
    report = import_now(wanted)
    after, before = exported(), yaml.safe_load(wanted)
    assert {**after, "upstreams": 0, "keys": 0} == {**before, "upstreams": 0, "keys": 0}
    assert "The upstream 'house' has no stored key here. Enter it." in report.remarks
    assert (
        "The key 'ada's laptop' ('sk-athena-canary') was skipped: it does not exist here."
        in report.remarks
    )


def test_an_invalid_row_does_not_stop_an_export():
    Upstream.objects.update(headers=["x"], provider_preferences=7)
    FormatSettings.objects.create(format="gone")
    assert "gone" not in text()
    assert any("provider_preferences" in problem for problem in problems(text()))


def test_a_document_has_no_anchors():
    shared = {"a": [1]}
    document = current_document()
    for row in document["upstreams"]:
        row["provider_preferences"] = {"x": shared, "y": shared}
    assert compose(render(document))[1] == []


def test_the_guide_documents_every_field_and_its_example_works(monkeypatch):
    guide = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
    for table in TABLES:
        listed = re.search(rf"^\| `{table.section}` \| (.*) \|$", guide, re.MULTILINE)
        assert re.findall(r"`(\w+)`", listed[1]) == [field.name for field in table.fields]
    User.objects.create(username="ada")
    client_key("ada's laptop", "sk-athena-4fQz1b-and-so-on-until-it-is-long-enough")
    monkeypatch.setenv("CI_API_KEY", CLIENT)
    monkeypatch.setenv("HOUSE_API_KEY", CANARY)
    example = re.search(r"^```yaml\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)[1]
    assert import_now(example).remarks == [
        "The upstream 'openrouter' has no stored key here. Enter it."
    ]
    assert preview_import(example, now=NOW).changes == []
