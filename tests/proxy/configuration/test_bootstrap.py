"""The bootstrap: environment variables create the first rows of the configuration."""

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from athena_site.settings import PASSWORD_HASHERS
from formats import FORMATS
from proxy.configuration.bootstrap import bootstrap
from proxy.configuration.routing import resolve
from proxy.configuration.snapshot import load
from proxy.configuration.upstream import demo_key, read_upstream
from proxy.models import ClientKey, ConfigurationVersion, FormatSettings, ModelRoute, Upstream
from proxy.models.keys import digest_of

pytestmark = pytest.mark.django_db

OPENROUTER = {"OPENROUTER_API_KEY": "sk-or-1"}
ANTHROPIC = {"ATHENA_ANTHROPIC_API_KEY": "sk-ant-1"}


@pytest.fixture(autouse=True)
def data_dir(settings, tmp_path, monkeypatch):
    settings.DATA_DIR = tmp_path
    for name, value in {**OPENROUTER, **ANTHROPIC}.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def target(name):
    route = resolve(load(), name)
    return route.upstream.name, route.model


def demo_address():
    return str(resolve(load(), "claude-sonnet-4-5").upstream.url)


def test_without_any_key_the_demo_upstream_answers(settings):
    started = bootstrap({})
    assert started.upstream == "demo"
    assert target("claude-sonnet-4-5") == ("demo", "moonshotai/kimi-k2.5")
    assert target("claude-opus-4-8") == ("demo", "deepseek/deepseek-v3.2")
    assert target("claude-3-5-haiku-20241022") == ("demo", "qwen/qwen3-coder")
    assert target("qwen/qwen3-max") == ("demo", "qwen/qwen3-max")
    assert str(load().routes[0].upstream.url).startswith(f"{settings.OWN_URL}/demo/v1/")


def test_with_an_openrouter_key_the_routes_use_openrouter():
    started = bootstrap(OPENROUTER | {"ATHENA_MODEL_SONNET": "z-ai/glm-5"})
    assert started.upstream == "openrouter"
    assert target("claude-sonnet-4-5") == ("openrouter", "z-ai/glm-5")
    route = resolve(load(), "claude-opus-4")
    assert str(route.upstream.url) == "https://openrouter.ai/api/v1/chat/completions"
    assert ("authorization", "Bearer sk-or-1") in route.upstream.headers


def test_with_only_an_anthropic_key_claude_names_are_sent_to_anthropic_unchanged():
    assert bootstrap(ANTHROPIC).upstream == "anthropic"
    assert target("claude-sonnet-4-5") == ("anthropic", "claude-sonnet-4-5")
    assert target("claude-next") == ("anthropic", "claude-next")


def test_a_key_added_later_moves_the_routes_that_were_not_edited():
    bootstrap({})
    bootstrap(OPENROUTER)
    assert target("claude-sonnet-4-5")[0] == "openrouter"
    bootstrap({})
    assert target("claude-sonnet-4-5")[0] == "demo"


def test_a_route_that_an_operator_edited_is_not_changed():
    bootstrap({})
    route = ModelRoute.objects.get(pattern="claude-*sonnet*")
    route.upstream_model, route.from_environment = "vendor/mine", False
    route.save()
    bootstrap(OPENROUTER)
    assert ModelRoute.objects.get(pattern="claude-*sonnet*").upstream_model == "vendor/mine"
    assert target("claude-opus-4-8")[0] == "openrouter"


def test_a_second_start_changes_nothing():
    bootstrap(OPENROUTER)
    before = ConfigurationVersion.objects.get().number
    started = bootstrap(OPENROUTER)
    assert ConfigurationVersion.objects.get().number == before
    assert (started.client_key, started.admin_password) == (None, None)


def test_a_client_key_is_generated_once_and_stored_on_this_machine(data_dir):
    key = bootstrap({}).client_key
    assert key is not None
    assert key.startswith("sk-athena-")
    path = data_dir / "client_key"
    assert path.read_text() == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert ClientKey.objects.get().digest == digest_of(key)
    assert bootstrap({}).client_key is None


def test_the_client_key_follows_the_environment_variable():
    bootstrap({"ATHENA_CLIENT_KEY": "a-key-of-my-own-choice"})
    bootstrap({"ATHENA_CLIENT_KEY": "another-key-of-my-own"})
    assert ClientKey.objects.get().digest == digest_of("another-key-of-my-own")


def test_a_revoked_key_from_the_environment_stays_revoked():
    bootstrap({"ATHENA_CLIENT_KEY": "a-key-of-my-own-choice"})
    row = ClientKey.objects.get()
    row.revoked_at = timezone.now()
    row.save()
    bootstrap({"ATHENA_CLIENT_KEY": "a-key-of-my-own-choice"})
    assert load().keys == {}


def test_the_error_for_a_weak_client_key_names_the_variable():
    with pytest.raises(ImproperlyConfigured, match="ATHENA_CLIENT_KEY"):
        bootstrap({"ATHENA_CLIENT_KEY": "short"})


def test_an_invalid_base_url_in_the_environment_is_rejected():
    with pytest.raises(ImproperlyConfigured, match="not a valid base URL"):
        bootstrap(OPENROUTER | {"OPENROUTER_BASE_URL": "nonsense"})


def test_the_first_admin_can_log_in_with_the_printed_password(settings):
    settings.PASSWORD_HASHERS = PASSWORD_HASHERS
    started = bootstrap({"ATHENA_ADMIN_USER": "ada"})
    user = get_user_model().objects.get(username="ada")
    assert user.is_superuser
    assert user.check_password(started.admin_password)
    assert user.password.startswith("argon2")


def test_every_format_has_a_row_to_edit():
    bootstrap({})
    assert set(FormatSettings.objects.values_list("format", flat=True)) == set(FORMATS)


def test_rows_from_the_environment_are_marked():
    bootstrap(OPENROUTER)
    assert Upstream.objects.get(name="openrouter").from_environment


def test_the_demo_keeps_its_url_even_if_an_operator_edited_it(settings):
    bootstrap({})
    demo = Upstream.objects.get(name="demo")
    demo.from_environment, demo.base_url = False, "http://127.0.0.1:1/demo/v1"
    demo.save()
    bootstrap({})
    assert demo_address() == f"{settings.OWN_URL}/demo/v1/chat/completions"


def test_each_node_uses_the_demo_at_its_own_address(settings):
    bootstrap({})
    version = ConfigurationVersion.objects.get().number
    settings.OWN_URL = "http://127.0.0.1:8123"
    bootstrap({})
    # The row is the same for every node.
    assert ConfigurationVersion.objects.get().number == version
    assert demo_address() == "http://127.0.0.1:8123/demo/v1/chat/completions"


def test_upstreams_encrypted_with_another_secret_are_named(settings):
    assert bootstrap(OPENROUTER).unreadable == ()
    with_key = Upstream(name="stored", base_url="https://api.example.org/v1")
    with_key.store_key("sk-1")
    with_key.save()
    Upstream.objects.create(
        name="sealed", base_url="https://api.example.org/v1", headers={"X-Api-Token": "t-1"}
    )
    assert bootstrap(OPENROUTER).unreadable == ()
    settings.SECRET_KEY = "another secret that is long enough for every use of it"
    # The stored key of the demo is not used.
    assert bootstrap(OPENROUTER).unreadable == ("sealed", "stored")


@pytest.mark.parametrize("environment", [{}, {"ATHENA_CLIENT_KEY": "sk-athena-given-key"}])
def test_the_first_key_belongs_to_the_first_administrator(environment):
    """N7. Otherwise the usage page is empty for the person who started the gateway."""
    bootstrap(environment | {"ATHENA_ADMIN_USER": "olga"})
    assert ClientKey.objects.get().owner.get_username() == "olga"


def test_a_later_start_returns_the_administrator_and_leaves_the_owner_of_the_key():
    """N7. The name comes from the database: the environment may have another by then."""
    bootstrap({"ATHENA_ADMIN_USER": "olga"})
    ClientKey.objects.update(owner=None)
    started = bootstrap({"ATHENA_ADMIN_USER": "someone-else"})
    assert (started.admin_user, started.admin_password) == ("olga", None)
    assert ClientKey.objects.get().owner is None


OLD_ROWS = [
    {"base_url": "http://127.0.0.1:8000/demo/v1", "from_environment": True},
    {"base_url": "http://demo.invalid/v1", "from_environment": True, "sealed_key": "unreadable"},
    {"base_url": "http://node-1:8000/demo/v1", "from_environment": False},
]


@pytest.mark.parametrize("fields", OLD_ROWS)
def test_the_demo_of_an_older_node_is_left_as_it_is(settings, fields):
    """N15: its row works for the older node, and this node does not need it."""
    bootstrap({})
    demo = Upstream.objects.get(name="demo")
    fields = {"sealed_key": demo.sealed_key, **fields}
    Upstream.objects.filter(pk=demo.pk).update(**fields)
    for environment in ({}, OPENROUTER, {}):
        bootstrap(environment)
        assert Upstream.objects.filter(pk=demo.pk).values(*fields).get() == fields
    assert demo_address() == f"{settings.OWN_URL}/demo/v1/chat/completions"
    assert read_upstream(Upstream.objects.get(name="demo")).secrets() == (demo_key(),)
