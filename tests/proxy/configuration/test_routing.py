"""Routing: the route, format and limits of a model name."""

from dataclasses import replace

import pytest
from django.utils import timezone

from proxy.configuration.routing import fallback, listed_models, resolve
from proxy.configuration.snapshot import NotBootstrapped, load
from proxy.configuration.upstream import endpoint_url
from proxy.errors import GatewayError
from proxy.models import (
    ClientKey,
    ConfigurationVersion,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Upstream,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def openrouter():
    return Upstream.objects.create(
        name="openrouter", service="openrouter", base_url="https://openrouter.ai/api/v1"
    )


@pytest.fixture(autouse=True)
def gateway_row(openrouter):
    """The default route that the bootstrap creates."""
    default = ModelRoute.objects.create(
        pattern="default", upstream=openrouter, upstream_model="moonshotai/kimi-k2.5"
    )
    return GatewaySettings.objects.create(pk=1, default_route=default)


def route(name):
    return resolve(load(), name)


def test_the_lowest_priority_number_that_matches_wins(openrouter):
    ModelRoute.objects.create(pattern="claude-*", upstream=openrouter, upstream_model="a/general")
    ModelRoute.objects.create(
        pattern="claude-*opus*", upstream=openrouter, upstream_model="a/opus", priority=10
    )
    assert route("claude-opus-4-8-20260101").model == "a/opus"
    assert route("Claude-Sonnet-5").model == "a/general"


def test_each_snapshot_has_its_own_cache_of_routes():
    first = load()
    assert resolve(first, "any").model == "moonshotai/kimi-k2.5"
    assert first.default_route is not None
    other = replace(first, default_route=replace(first.default_route, upstream_model="a/other"))
    assert resolve(other, "any").model == "a/other"


def test_a_name_with_a_slash_goes_to_the_default_upstream_unchanged():
    assert route("vendor/any-model").model == "vendor/any-model"


def test_a_route_can_match_a_name_with_a_slash(openrouter):
    ModelRoute.objects.create(pattern="vendor/*", upstream=openrouter, upstream_model="other/one")
    assert route("vendor/any-model").model == "other/one"


def test_an_unknown_name_uses_the_default_route():
    assert route("whatever").model == "moonshotai/kimi-k2.5"


def test_the_long_context_suffix_is_not_part_of_the_name(openrouter):
    ModelRoute.objects.create(pattern="claude-x", upstream=openrouter, upstream_model="a/x")
    assert route("claude-x[1m]").model == "a/x"
    assert route("vendor/model[1m]").model == "vendor/model"


def test_the_long_context_suffix_is_not_sent_to_a_fallback(openrouter):
    spare = ModelRoute.objects.create(pattern="spare", upstream=openrouter)
    ModelRoute.objects.create(
        pattern="claude-*", upstream=openrouter, upstream_model="a/x", fallback=spare
    )
    FormatOverride.objects.create(pattern="claude-x", format="kimi")
    other = fallback(load(), route("claude-x[1m]"), "claude-x[1m]")
    assert (other.model, other.format.format) == ("claude-x", "kimi")


def test_without_a_default_route_an_unknown_name_is_not_found(gateway_row):
    gateway_row.default_route = None
    gateway_row.save()
    with pytest.raises(
        GatewayError, match="no route to an active upstream matches the model 'whatever'"
    ) as caught:
        route("whatever")
    assert (caught.value.status, caught.value.source) == (404, "config")


def test_inactive_routes_and_upstreams_are_skipped(openrouter):
    off = Upstream.objects.create(name="off", base_url="http://x/v1", active=False)
    ModelRoute.objects.create(pattern="m-*", upstream=off, upstream_model="a/off", priority=1)
    ModelRoute.objects.create(
        pattern="m-?", upstream=openrouter, upstream_model="a/inactive", active=False
    )
    assert route("m-1").model == "moonshotai/kimi-k2.5"


def test_an_override_comes_before_detection_and_detection_before_the_setting():
    assert route("moonshotai/kimi-k2").format == ("kimi", "detection")
    assert route("vendor/unheard-of").format == ("auto", "default")
    FormatOverride.objects.create(pattern="*/unheard-*", format="kimi")
    assert route("vendor/unheard-of").format == ("kimi", "override")
    FormatOverride.objects.create(pattern="vendor/*", format="qwen", priority=1)
    assert route("vendor/unheard-of").format == ("qwen", "override")


def test_an_override_can_match_the_clients_name_of_a_model(openrouter):
    ModelRoute.objects.create(pattern="house-model", upstream=openrouter, upstream_model="v/plain")
    FormatOverride.objects.create(pattern="house-*", format="deepseek")
    assert route("house-model").format == ("deepseek", "override")


def test_models_of_unknown_format_are_read_as_the_settings_say(gateway_row):
    assert route("vendor/unheard-of").format == ("auto", "default")
    gateway_row.unknown_format = "standard"
    gateway_row.save()
    assert route("vendor/unheard-of").format == ("standard", "default")
    assert route("moonshotai/kimi-k2").format == ("kimi", "detection")


def test_a_setting_that_does_not_exist_is_logged_and_read_as_standard(gateway_row, caplog):
    GatewaySettings.objects.update(unknown_format="klingon")
    assert route("vendor/unheard-of").format == ("standard", "default")
    assert "'klingon' of unknown models does not exist" in caplog.text


@pytest.mark.parametrize(
    "model", ["anthropic/claude-sonnet-5", "openai/gpt-5", "google/gemini-3-pro", "x-ai/grok-5"]
)
def test_models_that_answer_with_structured_calls_only_are_standard(model):
    assert route(model).format == ("standard", "default")


def test_only_the_upstreams_name_tells_that_a_model_answers_with_structured_calls(openrouter):
    ModelRoute.objects.create(pattern="claude-*", upstream=openrouter, upstream_model="v/unheard")
    assert route("claude-sonnet-5").format == ("auto", "default")
    ModelRoute.objects.create(pattern="house", upstream=openrouter, upstream_model="openai/gpt-5")
    assert route("house").format == ("standard", "default")


def test_an_inactive_override_does_nothing():
    FormatOverride.objects.create(pattern="*", format="qwen", active=False)
    assert route("vendor/unheard-of").format.format == "auto"


def test_limits_strictness_and_markers_come_from_the_format():
    FormatSettings.objects.create(
        format="kimi",
        buffer_limit=2048,
        strict=True,
        split_thinking="opened",
        markers={"SECTION_BEGIN": ["<|calls|>"]},
        context_warning=5000,
    )
    found = route("moonshotai/kimi-k2")
    assert (found.limits.held_chars, found.strict, found.context_warning) == (2048, True, 5000)
    assert found.markers == (("SECTION_BEGIN", "<|calls|>"),)
    assert found.split_thinking == "opened"
    assert route("vendor/plain").limits.held_chars == 1024 * 1024


@pytest.mark.parametrize(
    ("service", "model", "policy", "field"),
    [
        ("openrouter", "vendor/plain", "auto", "reasoning"),
        ("other", "moonshotai/kimi-k2", "auto", "reasoning_content"),
        ("other", "deepseek/v3", "auto", "reasoning_content"),
        ("other", "vendor/plain", "auto", None),
        ("openrouter", "moonshotai/kimi-k2", "none", None),
        ("other", "vendor/plain", "reasoning_content", "reasoning_content"),
    ],
)
def test_reasoning_is_sent_back_as_the_service_and_the_format_require(
    service, model, policy, field
):
    upstream = Upstream.objects.create(name="u", service=service, base_url="http://x/v1")
    ModelRoute.objects.create(
        pattern="m", upstream=upstream, upstream_model=model, reasoning=policy
    )
    assert route("m").target.reasoning_field == field


def test_kimi_and_mistral_use_native_ids_and_anthropic_its_own_rules():
    upstream = Upstream.objects.create(
        name="a", service="anthropic", dialect="anthropic", base_url="https://api.anthropic.com"
    )
    ModelRoute.objects.create(pattern="claude", upstream=upstream)
    assert route("moonshotai/kimi-k2").target.native_ids == "kimi"
    assert route("mistralai/devstral-2").target.native_ids == "mistral"
    assert not route("claude").target.native_ids
    assert route("claude").target.is_anthropic
    assert not route("moonshotai/kimi-k2").target.is_anthropic


def test_openrouter_preferences_are_added_to_every_request(openrouter):
    openrouter.provider_preferences = {"order": ["moonshotai"]}
    openrouter.save()
    assert route("v/m").target.fields == {"provider": {"order": ["moonshotai"]}}


def test_a_fallback_has_its_own_format_and_limits(openrouter):
    second = ModelRoute.objects.create(pattern="b", upstream=openrouter, upstream_model="v/b")
    ModelRoute.objects.create(pattern="a", upstream=openrouter, fallback=second)
    snapshot = load()
    found = fallback(snapshot, resolve(snapshot, "a"), "a")
    assert found is not None
    assert found.model == "v/b"
    assert fallback(snapshot, found, "a") is None


def test_listed_models_are_names_that_clients_can_use(openrouter):
    ModelRoute.objects.create(
        pattern="claude-*", upstream=openrouter, upstream_model="v/a", listed_as="claude-big"
    )
    ModelRoute.objects.create(pattern="plain", upstream=openrouter)
    ModelRoute.objects.create(pattern="wild-*", upstream=openrouter)
    assert listed_models(load()) == [
        "claude-big",
        "v/a",
        "moonshotai/kimi-k2.5",
        "plain",
    ]


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://h/api/v1", "https://h/api/v1/chat/completions"),
        ("https://h/api/v1/", "https://h/api/v1/chat/completions"),
        ("https://h", "https://h/v1/chat/completions"),
        ("https://h/", "https://h/v1/chat/completions"),
        ("https://h:8443/v1/chat/completions", "https://h:8443/v1/chat/completions"),
        ("https://h/api/paas/v4", "https://h/api/paas/v4/chat/completions"),
    ],
)
def test_common_spellings_of_a_base_url_work(base, url):
    assert str(endpoint_url(base, "/chat/completions")) == url


def test_the_key_is_sent_in_the_header_of_the_dialect():
    upstream = Upstream(name="a", dialect="anthropic", service="anthropic", base_url="https://a")
    upstream.store_key("sk-ant-secret")
    upstream.save()
    ModelRoute.objects.create(pattern="claude", upstream=upstream)
    found = route("claude").upstream
    assert ("x-api-key", "sk-ant-secret") in found.headers
    assert str(found.url) == "https://a/v1/messages"
    assert "sk-ant-secret" not in repr(found)


def test_an_unreadable_key_affects_only_its_upstream(openrouter, settings):
    openrouter.store_key("sk-or-secret")
    openrouter.save()
    settings.SECRET_KEY = "another secret that is long enough, too"
    assert "enter it again" in route("v/m").upstream.trouble


def test_a_missing_environment_variable_is_named(openrouter, monkeypatch):
    openrouter.key_variable = "NO_SUCH_API_KEY"
    openrouter.save()
    assert route("v/m").upstream.trouble == "the environment variable NO_SUCH_API_KEY is not set"
    monkeypatch.setenv("NO_SUCH_API_KEY", "sk-1")
    assert ("authorization", "Bearer sk-1") in route("v/m").upstream.headers


def test_revoked_keys_are_not_in_the_snapshot():
    for label in ("good", "revoked"):
        key = ClientKey(label=label, revoked_at=timezone.now() if label == "revoked" else None)
        key.adopt(f"sk-athena-{label}-1234567")
        key.save()
    assert [key.label for key in load().keys.values()] == ["good"]


def test_every_edit_makes_a_new_version(openrouter):
    before = load().version
    openrouter.active = False
    openrouter.save()
    assert load().version == before + 1
    ModelRoute.objects.create(pattern="x", upstream=openrouter).delete()
    assert load().version == before + 3


def test_an_empty_database_is_reported_as_not_bootstrapped():
    ConfigurationVersion.objects.all().delete()
    with pytest.raises(NotBootstrapped):
        load()


def test_equal_priorities_are_ordered_by_pattern_on_every_database():
    for pattern in ("a-*", "a*", "B*", "b*", "a_*"):
        FormatOverride.objects.create(pattern=pattern.replace("_", "."), format="kimi")
    assert [row.pattern for row in load().overrides] == ["B*", "a*", "a-*", "a.*", "b*"]
