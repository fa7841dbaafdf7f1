"""Configuration pages: presets, previews, concurrent edits, history, rules, upstreams, keys."""

from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.forms import model_to_dict
from django.test import Client
from django.utils import timezone

from proxy.models import (
    ClientKey,
    Facet,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Span,
    TrafficSum,
    Upstream,
)
from proxy.models.keys import digest_of
from tests.support.chat import reply
from tests.support.scripted_upstream import whole
from tests.support.staff_pages import (
    OVERRIDE_FORM,
    UPSTREAM_FORM,
    configuration_version,
    operator_client,
    seen_version,
    text_of,
)
from tests.support.stored_exchanges import configure
from tests.support.tested_upstream import CANARY, MODELS, TOOL_CALL
from tests.support.wire import stream

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _configured(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    configure()
    cache.clear()


@pytest.fixture
def olga():
    return operator_client("olga")


def request_model(model):
    """Record traffic of a model today, so that previews know it."""
    day = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    names = (
        "failures",
        "client_errors",
        "disconnects",
        "calls",
        "calls_rescued",
        "rescued",
        "leaked",
    )
    TrafficSum.objects.create(
        span=Span.DAY,
        facet=Facet.MODEL,
        start=day,
        value=model,
        requests=1,
        **dict.fromkeys(names, 0),
    )


def test_a_preset_fills_the_form_except_the_key(olga):
    page = text_of(olga.get("/admin/proxy/upstream/add/?preset=openrouter"))
    assert 'value="https://openrouter.ai/api/v1"' in page
    assert "openrouter.ai/keys" in page
    assert 'value="https://api.anthropic.com"' in text_of(
        olga.get("/admin/proxy/upstream/add/?preset=anthropic")
    )
    assert "http://127.0.0.1:8001/v1" in text_of(olga.get("/admin/proxy/upstream/add/?preset=vllm"))


def test_a_preview_lists_models_that_change_format_and_saves_nothing(olga):
    request_model("house/one")
    before = configuration_version()
    page = text_of(
        olga.post("/admin/proxy/formatoverride/add/", {**OVERRIDE_FORM, "_preview": "1"})
    )
    assert "house/one" in page
    assert "changes format" in page
    assert "moonshotai/kimi-k2.5 as standard" not in page
    assert (configuration_version(), FormatOverride.objects.count()) == (before, 0)


def test_a_route_preview_shows_where_models_would_go(olga):
    demo = Upstream.objects.get(name="demo")
    form = {"pattern": "claude-*", "upstream": demo.pk, "upstream_model": "vendor/other",
            "priority": "1", "reasoning": "auto", "active": "on", "_preview": "1"}  # fmt: skip
    page = text_of(olga.post("/admin/proxy/modelroute/add/", form))
    assert "claude-sonnet" in page
    assert "demo: vendor/other as auto" in page
    assert not ModelRoute.objects.filter(pattern="claude-*").exists()


def test_a_preview_of_the_settings_shows_the_models_of_unknown_format(olga):
    request_model("house/one")
    url = "/admin/proxy/gatewaysettings/1/change/"
    fields = model_to_dict(GatewaySettings.objects.get())
    form = {name: value for name, value in fields.items() if value is not None}
    assert form["unknown_format"] == "auto"
    before = configuration_version()
    changed = {**form, "unknown_format": "standard"}
    page = text_of(olga.post(url, {**changed, "_preview": "1"}))
    assert "demo: house/one as auto" in page
    assert "<ins>demo: house/one as standard</ins>" in page
    assert "and the gateway settings say standard" in page
    assert "moonshotai/kimi-k2.5" not in page
    assert configuration_version() == before
    assert olga.post(url, changed).status_code == 302
    assert GatewaySettings.objects.get().unknown_format == "standard"
    history = text_of(olga.get("/admin/proxy/gatewaysettings/1/history/"))
    assert "<del>auto</del> → <ins>standard</ins>" in history


def test_the_rules_page_says_why_a_model_of_unknown_format_is_read_as_auto(olga):
    reason = "the name says nothing about the format: read as auto"
    page = text_of(olga.get("/admin/rules/?model=house/one"))
    assert f'<a href="/admin/proxy/gatewaysettings/1/change/">{reason}</a>' in page
    request_model("house/one")
    assert reason in text_of(olga.get("/admin/rules/"))
    page = text_of(olga.get("/admin/rules/?model=openai/gpt-5"))
    assert "models with this name answer with structured calls only" in page
    assert reason not in page


def test_a_preview_of_an_invalid_form_lists_the_fields(olga):
    page = text_of(olga.post("/admin/proxy/formatoverride/add/", {"pattern": "(", "_preview": "1"}))
    assert "incomplete or invalid: Format, Priority, Pattern" in page


def test_a_pattern_is_previewed_before_any_model_matches_it(olga):
    demo = Upstream.objects.get(name="demo")
    form = {"pattern": "local-*", "upstream": demo.pk, "priority": "100", "reasoning": "auto",
            "active": "on", "_preview": "1"}  # fmt: skip
    page = text_of(olga.post("/admin/proxy/modelroute/add/", form))
    assert "demo: local-* as auto" in page
    assert "the name says nothing about the format: read as auto" in page
    assert "any other name like <code>local-*</code>" in page


def test_a_preview_shows_models_that_would_be_rejected(olga):
    demo = Upstream.objects.get(name="demo")
    form = {**UPSTREAM_FORM, "name": "demo", "service": "other", "base_url": demo.base_url}
    del form["active"]
    url = f"/admin/proxy/upstream/{demo.pk}/change/"
    page = text_of(olga.post(url, {**form, "_preview": "1"}))
    assert "rejected: no route matches" in page
    assert "changes format" not in page


def test_the_default_route_cannot_be_switched_off(olga):
    row = ModelRoute.objects.get(pattern="default")
    form = {"pattern": "default", "upstream": row.upstream_id, "upstream_model": row.upstream_model,
            "priority": "100", "reasoning": "auto"}  # fmt: skip
    page = text_of(olga.post(f"/admin/proxy/modelroute/{row.pk}/change/", form))
    assert "This is the default route" in page
    chosen = {"action": "disable", "_selected_action": [row.pk], "confirmed": "yes"}
    assert "This is the default route" in text_of(
        olga.post("/admin/proxy/modelroute/", chosen, follow=True)
    )
    assert ModelRoute.objects.get(pattern="default").active
    page = text_of(olga.get(f"/admin/proxy/modelroute/{row.pk}/delete/"))
    assert "protected related objects" in page


def test_a_preview_needs_the_permission_to_save():
    user = User.objects.create(username="norole", is_staff=True)
    client = Client()
    client.force_login(user)
    form = {**OVERRIDE_FORM, "_preview": "1"}
    assert client.post("/admin/proxy/formatoverride/add/", form).status_code == 403


def test_deleting_shows_the_effects_and_the_dependent_rows(olga):
    request_model("house/one")
    row = FormatOverride.objects.create(pattern="house/*", format="kimi")
    page = text_of(olga.get(f"/admin/proxy/formatoverride/{row.pk}/delete/"))
    assert "What deleting this would change" in page
    assert "house/one" in page
    demo = Upstream.objects.get(name="demo")
    assert "Used by 4" in text_of(olga.get(f"/admin/proxy/upstream/{demo.pk}/change/"))
    page = text_of(olga.post(f"/admin/proxy/upstream/{demo.pk}/delete/", {"post": "yes"}))
    assert "protected related objects" in page
    assert "claude-*sonnet*" in page
    assert Upstream.objects.filter(name="demo").exists()


def test_a_concurrent_change_is_not_overwritten_without_warning(olga):
    row = FormatOverride.objects.create(pattern="house/*", format="kimi")
    url = f"/admin/proxy/formatoverride/{row.pk}/change/"
    first = seen_version(text_of(olga.get(url)))
    oscar = operator_client("oscar")
    theirs = {**OVERRIDE_FORM, "format": "qwen", "seen": seen_version(text_of(oscar.get(url)))}
    assert oscar.post(url, theirs).status_code == 302

    mine = {**OVERRIDE_FORM, "note": "mine", "seen": first}
    page = text_of(olga.post(url, mine))
    assert "oscar changed this" in page
    assert "format from kimi to qwen" in page
    row.refresh_from_db()
    assert (row.format, row.note) == ("qwen", "")
    for field in ('name="pattern" value="house/*"', 'name="note" value="mine"'):
        assert field in page  # the form keeps the input

    assert olga.post(url, {**mine, "seen": seen_version(page)}).status_code == 302
    row.refresh_from_db()
    assert (row.format, row.note) == ("kimi", "mine")


def test_history_shows_author_and_change_and_can_revert(olga):
    olga.post("/admin/proxy/formatoverride/add/", OVERRIDE_FORM)
    row = FormatOverride.objects.get()
    version = configuration_version()
    olga.post(f"/admin/proxy/formatoverride/{row.pk}/change/", {**OVERRIDE_FORM, "format": "qwen"})
    page = text_of(olga.get(f"/admin/proxy/formatoverride/{row.pk}/history/"))
    assert "olga" in page
    assert "<del>kimi</del> → <ins>qwen</ins>" in page
    url = f"/admin/proxy/formatoverride/{row.pk}/history/{version}/revert/"
    assert url in page
    assert olga.get(url).status_code == 405
    page = text_of(olga.post(url, follow=True))
    assert f"was restored to version {version}" in page
    row.refresh_from_db()
    assert (row.format, configuration_version()) == ("kimi", version + 2)
    assert row.history.first().history_user.username == "olga"


def test_a_deleted_row_can_be_restored_from_the_changes_page(olga):
    olga.post("/admin/proxy/formatoverride/add/", OVERRIDE_FORM)
    row, version = FormatOverride.objects.get(), configuration_version()
    olga.post(f"/admin/proxy/formatoverride/{row.pk}/delete/", {"post": "yes"})
    page = text_of(olga.get("/admin/changes/"))
    url = f"/admin/proxy/formatoverride/{row.pk}/history/{version}/revert/"
    assert "Restore" in page
    assert url in page
    olga.post(url)
    assert FormatOverride.objects.get().pattern == "house/*"


def test_an_impossible_revert_is_rejected_with_the_reason(olga):
    olga.post("/admin/proxy/formatoverride/add/", OVERRIDE_FORM)
    row, version = FormatOverride.objects.get(), configuration_version()
    olga.post(f"/admin/proxy/formatoverride/{row.pk}/delete/", {"post": "yes"})
    FormatOverride.objects.create(pattern="house/*", format="qwen")
    url = f"/admin/proxy/formatoverride/{row.pk}/history/{version}/revert/"
    assert "This version cannot be restored" in text_of(olga.post(url, follow=True))
    assert FormatOverride.objects.get().format == "qwen"
    gone = olga.post(f"/admin/proxy/formatoverride/{row.pk}/history/999999/revert/")
    assert gone.status_code == 404


def test_the_version_is_on_every_page(olga):
    expected = f"version {configuration_version()}"
    for path in ("/admin/", "/admin/audit/", "/admin/proxy/upstream/", "/admin/rules/"):
        assert expected in text_of(olga.get(path)), path


def test_the_menu_has_an_entry_for_the_changes(olga):
    entry = text_of(olga.get("/admin/")).split('href="/admin/changes/"')[1].split("</a>")[0]
    assert f">Changes (version {configuration_version()})" in entry


def test_disabling_and_enabling_rows_creates_a_version_each(olga):
    rows = [FormatOverride.objects.create(pattern=f"{n}/*", format="kimi") for n in "ab"]
    before, keys = configuration_version(), [row.pk for row in rows]
    url = "/admin/proxy/formatoverride/"
    request_model("a/one")
    page = text_of(olga.post(url, {"action": "disable", "_selected_action": keys}))
    assert "Disable 2 format overrides?" in page
    assert "a/one" in page
    assert configuration_version() == before
    confirmed = {"action": "disable", "_selected_action": keys, "confirmed": "yes"}
    page = text_of(olga.post(url, confirmed, follow=True))
    assert '2 format overrides disabled. <a href="/admin/changes/">Undo this' in page
    assert FormatOverride.objects.filter(active=False).count() == 2
    assert configuration_version() == before + 2
    olga.post(url, {"action": "enable", "_selected_action": keys, "confirmed": "yes"})
    assert FormatOverride.objects.filter(active=True).count() == 2


def test_rules_page_shows_what_applies_and_its_source(olga):
    ModelRoute.objects.filter(pattern="claude-*sonnet*").update(max_tokens=4096)
    demo = Upstream.objects.get(name="demo")
    ModelRoute.objects.create(pattern="claude-*", upstream=demo, priority=200)
    FormatOverride.objects.create(pattern="moonshotai/*", format="qwen", priority=1)
    FormatOverride.objects.create(pattern="claude-*", format="deepseek", priority=2)
    FormatSettings.objects.filter(format="qwen").update(strict=True, context_warning=5000)
    page = text_of(olga.get("/admin/rules/?model=claude-sonnet-4-5[1m]"))
    for words in (
        "claude-*sonnet*",
        "the first route that matches, with priority 100",
        "moonshotai/kimi-k2.5",
        "the override moonshotai/*",
        "at most 4,096",
        "is an error",
        "above 5,000 bytes",
        "the settings of qwen",
        "the gateway&#x27;s settings",
        "would use the upstream demo",
        "would use the format deepseek",
    ):
        assert words in page, words
    assert "the default route, because no other route matches" in text_of(
        olga.get("/admin/rules/?model=zzz")
    )
    GatewaySettings.objects.update(default_route=None)
    assert "no route to an active upstream" in text_of(olga.get("/admin/rules/?model=zzz"))


def test_rules_show_a_hostile_name_as_text(olga):
    page = text_of(olga.get("/admin/rules/", {"model": "<script>x</script>\u202e"}))
    assert "<script>x" not in page


@pytest.fixture
def row(upstream):
    upstream.script("/v1/models", whole(MODELS))
    upstream.script("moonshotai/kimi-probed", reply(stream({"content": TOOL_CALL})))
    row = Upstream(name="tried", base_url=upstream.url)
    row.store_key(CANARY)
    row.save()
    return row


def test_an_upstream_connection_is_tested_from_its_page(olga, row):
    url = f"/admin/proxy/upstream/{row.pk}/test/"
    page = text_of(olga.post(url, {"model": ""}))
    assert "All steps passed." in page
    assert "moonshotai/kimi-probed called report_health, read as kimi" in page
    assert CANARY not in page
    again = text_of(olga.post(url, {"model": ""}))
    assert "All steps passed." in again, "N10: a second click keeps the result of the first"
    assert "Wait 2 seconds" in text_of(olga.post(url, {"model": "another"}))


def test_a_route_model_is_chosen_from_the_upstream_list(olga, row):
    url = f"/admin/proxy/upstream/{row.pk}/models/"
    page = text_of(olga.get(url))
    assert "house/plain" in page
    query = f"upstream={row.pk}&amp;upstream_model=moonshotai%2Fkimi-probed"
    assert query in page
    assert "house/plain" not in text_of(olga.get(f"{url}?q=KIMI"))
    listed = olga.get(url, headers={"accept": "application/json"}).json()
    assert listed == {"models": ["moonshotai/kimi-probed", "house/plain"], "problem": ""}
    form = text_of(
        olga.get(f"/admin/proxy/modelroute/add/?upstream={row.pk}&upstream_model=house/plain")
    )
    assert 'value="house/plain"' in form
    assert 'data-models="/admin/proxy/upstream/0/models/"' in form


def test_a_route_gets_the_context_window_of_the_upstream_list(olga, row, upstream):
    listed = {"data": [{"id": "house/long", "max_model_len": 65536}]}
    upstream.script("/v1/models", whole(listed))
    page = unescape(text_of(olga.get(f"/admin/proxy/upstream/{row.pk}/models/")))
    assert ">65,536</td>" in page
    link = page.split('href="/admin/proxy/modelroute/add/')[1].split('"')[0]
    form = text_of(olga.get(f"/admin/proxy/modelroute/add/{link}"))
    assert 'name="context_window" value="65536"' in form


def test_rules_do_not_claim_that_the_upstream_reports_a_context_window(olga):
    page = text_of(olga.get("/admin/rules/?model=claude-sonnet-4-5"))
    window = page.split(">context window</td>")[1].split("</td>")[0]
    assert window.endswith("<code>unknown</code>")


def test_a_model_for_claudes_names_is_chosen_from_the_upstream_list(olga, row):
    names = f"/admin/proxy/upstream/{row.pk}/claude/"
    models = f"/admin/proxy/upstream/{row.pk}/models/"
    assert f'href="{models}"' in text_of(olga.get(names))
    chosen = f"{names}?model=house%2Fplain"
    assert f'href="{chosen}"' in text_of(olga.get(models))
    assert 'name="model" value="house/plain"' in text_of(olga.get(chosen))


def test_an_upstream_without_a_model_list_says_so(olga, row, upstream):
    upstream.script("/v1/models", whole({}, status=404))
    assert "HTTP 404" in text_of(olga.get(f"/admin/proxy/upstream/{row.pk}/models/"))


def plain_key(page):
    return page.split('id="key">')[1].split("<")[0]


def test_an_upstream_answers_for_claudes_names_in_one_step(olga):
    """N6: after a local model was added, plain `claude` still asked the old upstream."""
    house = Upstream.objects.create(name="house", base_url="http://127.0.0.1:9/v1")
    ModelRoute.objects.create(
        pattern="local", upstream=house, upstream_model="house/local", context_window=65536
    )
    url = f"/admin/proxy/upstream/{house.pk}/claude/"
    assert url in text_of(olga.get(f"/admin/proxy/upstream/{house.pk}/change/"))
    assert 'value="house/local"' in text_of(olga.get(url))
    before = configuration_version()

    preview = text_of(olga.post(url, {"model": "house/local"}))
    assert "<ins>house: house/local as auto</ins>" in preview
    assert '<td class="main name">claude-opus</td>' in preview
    assert '<td class="main name">any other name like <code>claude-*opus*</code></td>' in preview
    assert configuration_version() == before
    version = preview.split('name="version" value="')[1].split('"')[0]
    FormatOverride.objects.create(pattern="elsewhere", format="qwen")
    stale = text_of(olga.post(url, {"model": "house/local", "version": version}))
    assert "The configuration has changed" in stale
    version = stale.split('name="version" value="')[1].split('"')[0]
    done = text_of(olga.post(url, {"model": "house/local", "version": version}, follow=True))
    assert "model names are answered by house with " in done
    assert '<a href="/admin/changes/">Undo this' in done

    routes = ModelRoute.objects.filter(listed_as__startswith="claude-")
    assert {row.pattern for row in routes} == {
        "claude-*opus*",
        "claude-*sonnet*",
        "claude-*haiku*",
    }
    for row in routes:
        assert (row.upstream, row.upstream_model) == (house, "house/local")
        assert (row.context_window, row.from_environment) == (65536, False)
        assert row.history.first().history_change_reason == "house answers for Claude's names"


def test_a_model_that_no_route_can_have_is_refused_for_claudes_names(olga):
    house = Upstream.objects.create(name="house", base_url="http://127.0.0.1:9/v1")
    url = f"/admin/proxy/upstream/{house.pk}/claude/"
    for model, error in (("", "Enter the upstream"), ("x" * 201, "The routes cannot be set")):
        assert error in text_of(olga.post(url, {"model": model}))
    assert not house.routes.exists()


def test_a_new_key_is_shown_once_with_setup_lines_for_every_client(olga):
    form = text_of(olga.get("/admin/proxy/clientkey/add/"))
    making = form.split('name="making" value="')[1].split('"')[0]
    given = {"label": "ada", "allowed_models": "kimi-k2", "making": making}
    page = text_of(olga.post("/admin/proxy/clientkey/add/", given))
    key = plain_key(page)
    assert ClientKey.objects.get(label="ada").digest == digest_of(key)
    for line in (
        'export ANTHROPIC_BASE_URL="http://testserver"\n',
        f'export ANTHROPIC_AUTH_TOKEN="{key}"\n',
        "export ANTHROPIC_API_KEY=\nexport CLAUDE_CODE_AUTO_MODE_SERVER=0\n",
        # In zsh, a bare claude-opus[1m] is a file pattern.
        'claude --permission-mode default --model "kimi-k2"\n',
        "Override OpenAI Base URL   http://testserver/v1\n",
        'curl -N "http://testserver/v1/messages"',
        f"Anthropic(base_url=&quot;http://testserver&quot;, api_key=&quot;{key}&quot;)",
        f"OpenAI(base_url=&quot;http://testserver/v1&quot;, api_key=&quot;{key}&quot;)",
        "model=&quot;kimi-k2&quot;",
    ):
        assert line.replace("&quot;", '"') in page.replace("&quot;", '"'), line
    again = text_of(olga.post("/admin/proxy/clientkey/add/", given, follow=True))
    assert "was already created" in again
    assert ClientKey.objects.filter(label="ada").count() == 1


def test_an_expiry_in_the_past_is_rejected(olga):
    given = {"label": "ada", "expires_at_0": "2020-01-01", "expires_at_1": "00:00:00"}
    assert "This time is in the past" in text_of(olga.post("/admin/proxy/clientkey/add/", given))
    given = {"label": "ada", "allowed_models": "claude-*, kimi-k2"}
    page = text_of(olga.post("/admin/proxy/clientkey/add/", given))
    assert ClientKey.objects.get(label="ada").allowed_models == ["claude-*", "kimi-k2"]
    assert "claude-sonnet-4-5" in page
    page = text_of(
        olga.post("/admin/proxy/clientkey/add/", {"label": "b", "allowed_models": "qwen/*"})
    )
    assert "qwen/qwen3-coder" in page  # a model that the key may use


KEY_PAGES = ("rotate", "revoke")


@pytest.mark.parametrize(
    "name",
    ["gpt-$(touch canary)", "gpt-`touch canary`", "gpt-'; touch canary; '", 'gpt-"x', "gpt-!!"],
)
def test_the_setup_lines_of_a_key_run_no_text_that_is_listed_as_a_model(olga, name):
    ModelRoute.objects.create(
        pattern="gpt-*", upstream=Upstream.objects.first(), listed_as=name, upstream_model=name
    )
    form = {"label": "a\u202eb", "allowed_models": "gpt-*"}
    page = text_of(olga.post("/admin/proxy/clientkey/add/", form))
    assert name not in unescape(page)
    assert '--model "gpt-*"' in unescape(page)
    key = ClientKey.objects.get(label=form["label"])
    pages = [page, *(text_of(olga.get(f"/admin/proxy/clientkey/{key.pk}/{p}/")) for p in KEY_PAGES)]
    assert not any("\u202e" in page for page in pages)


def test_a_key_is_rotated_with_an_overlap(olga):
    key = ClientKey(label="ada", requests_per_minute=7)
    key.adopt("sk-athena-to-be-rotated")
    key.save()
    url = f"/admin/proxy/clientkey/{key.pk}/rotate/"
    assert "for one more day" in text_of(olga.get(url))
    page = text_of(olga.post(url, {"overlap": "1h"}))
    other = ClientKey.objects.get(replaces=key)
    assert digest_of(plain_key(page)) == other.digest
    assert other.requests_per_minute == 7
    key.refresh_from_db()
    left = key.expires_at - timezone.now()
    assert timedelta(minutes=58) < left <= timedelta(hours=1)
    assert "already replaced" in text_of(olga.post(url, {"overlap": "1h"}, follow=True))


def test_a_revoked_key_stays_revoked(olga):
    key = ClientKey(label="ada")
    key.adopt("sk-athena-to-be-revoked")
    key.save()
    version, url = configuration_version(), f"/admin/proxy/clientkey/{key.pk}/revoke/"
    assert "was never used" in text_of(olga.get(url))
    assert ClientKey.objects.get(pk=key.pk).revoked_at is None
    assert "is revoked" in text_of(olga.post(url, follow=True))
    revert = f"/admin/proxy/clientkey/{key.pk}/history/{version}/revert/"
    olga.post(revert)
    assert ClientKey.objects.get(pk=key.pk).revoked_at is not None
    assert olga.post(f"/admin/proxy/clientkey/{key.pk}/delete/").status_code == 403


def test_keys_can_be_filtered_by_state(olga):
    for label, fields in (
        ("fresh", {}),
        ("ended", {"expires_at": timezone.now() - timedelta(days=1)}),
        ("refused", {"revoked_at": timezone.now()}),
    ):
        key = ClientKey(label=label, **fields)
        key.adopt(f"sk-athena-{label}-key")
        key.save()
    for state, label in (("active", "fresh"), ("expired", "ended"), ("revoked", "refused")):
        page = text_of(olga.get(f"/admin/proxy/clientkey/?state={state}"))
        assert [name for name in ("fresh", "ended", "refused") if f">{name}<" in page] == [label]


def test_saving_an_upstream_keeps_its_key_and_never_shows_it(olga, row):
    url = f"/admin/proxy/upstream/{row.pk}/change/"
    page = text_of(olga.get(url))
    assert f"…{CANARY[-4:]}" in page
    olga.post(
        url,
        {
            **UPSTREAM_FORM,
            "name": "tried",
            "service": "other",
            "base_url": row.base_url,
            "idle_timeout": "60",
        },
    )
    history = text_of(olga.get(f"/admin/proxy/upstream/{row.pk}/history/"))
    assert "<ins>60.0</ins>" in history
    for text in (page, history, text_of(olga.get("/admin/changes/"))):
        assert CANARY not in text
    row.refresh_from_db()
    assert row.read_key() == CANARY


def test_a_secret_header_is_not_shown_after_saving(olga, row):
    url = f"/admin/proxy/upstream/{row.pk}/change/"
    form = {**UPSTREAM_FORM, "name": "tried", "service": "other", "base_url": row.base_url}
    olga.post(url, {**form, "headers": '{"X-House-Token": "canary-of-a-header", "X-Team": "blue"}'})
    page = text_of(olga.get(url))
    assert "canary-of-a-header" not in page
    assert "blue" in page
    olga.post(url, {**form, "headers": '{"X-House-Token": "[stored]", "X-Team": "red"}'})
    row.refresh_from_db()
    assert row.headers == {"X-House-Token": "canary-of-a-header", "X-Team": "red"}
    page = text_of(olga.post(url, {**form, "headers": '{"X-Other-Token": "[stored]"}'}))
    assert "No value is stored for X-Other-Token" in page
    history = text_of(olga.get(f"/admin/proxy/upstream/{row.pk}/history/"))
    assert "canary-of-a-header" not in history


def test_saving_an_upstream_shows_the_next_step_and_any_problem(olga):
    form = {**UPSTREAM_FORM, "key_variable": "$NO_SUCH_API_KEY"}
    page = text_of(olga.post("/admin/proxy/upstream/add/", form, follow=True))
    assert "NO_SUCH_API_KEY is not set" in page
    row = Upstream.objects.get(name="mine")
    assert row.key_variable == "NO_SUCH_API_KEY"
    link = f'<a href="/admin/proxy/upstream/{row.pk}/test/">Test the connection</a>'
    assert page.index("was added successfully") < page.index(link)
    assert "NO_SUCH_API_KEY is not set" in text_of(
        olga.get(f"/admin/proxy/upstream/{row.pk}/models/")
    )


def test_changes_page_needs_few_queries(olga, django_assert_max_num_queries):
    rows = [
        FormatOverride.objects.create(pattern=f"house/{number}", format="kimi")
        for number in range(120)
    ]
    for row in rows:
        row.format = "qwen"
        row.save()
    with django_assert_max_num_queries(40):
        page = text_of(olga.get("/admin/changes/"))
    assert page.count("qwen") >= 100
