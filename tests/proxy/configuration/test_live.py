"""Edits are live in every worker within two seconds, without disturbing requests."""

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from proxy.configuration.live import Configuration
from tests.support.calls_in_text import KIMI_CALL
from tests.support.chat import TOOLS, ask, chunk, read, reply, says, stream
from tests.support.client_keys import key_of
from tests.support.gateway import KEY, PRODUCT_SETTINGS, Gateway
from tests.support.scripted_upstream import Hold, whole
from tests.support.waiting import wait_for


def test_an_override_applies_without_a_restart(gateway, client, upstream):
    name = "house/qwen-by-name-only"
    upstream.script(name, reply(stream({"content": KIMI_CALL})))
    body = ask(name, tools=TOOLS, stream=True)
    assert "tool_calls_section" in read(client.post("/v1/messages", json=body)).text
    gateway.edit("FormatOverride.objects.create(pattern='house/*', format='kimi')")
    assert read(client.post("/v1/messages", json=body)).calls[0]["arguments"] == {"harbor": "Moss"}


def test_a_request_uses_one_snapshot_to_its_end(gateway, client, upstream):
    name, hold = "steady/qwen-by-name-only", Hold()
    script = upstream.script(
        name, reply(chunk({"content": KIMI_CALL[:40]}), hold, stream({"content": KIMI_CALL[40:]}))
    )
    body = ask(name, tools=TOOLS, stream=True)
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(client.post, "/v1/messages", json=body)
        wait_for(lambda: script.requests)
        gateway.edit("FormatOverride.objects.create(pattern='steady/*', format='kimi')")
        hold.event.set()
        assert "tool_calls_section" in read(answer.result(60)).text
    assert len(read(client.post("/v1/messages", json=body)).calls) == 1


def test_markers_and_strictness_of_a_format_can_be_edited(gateway, client, upstream):
    spelled = KIMI_CALL.replace("tool_calls_section", "house_calls")
    upstream.script("moonshotai/kimi-spelled", reply(stream({"content": spelled})))
    gateway.edit(
        "s = FormatSettings.objects.get(format='kimi')\n"
        "s.markers = {'SECTION_BEGIN': ['<|house_calls_begin|>'], 'SECTION_END': ['<|house_calls_end|>']}\n"
        "s.full_clean(); s.save()"
    )
    try:
        body = ask("moonshotai/kimi-spelled", tools=TOOLS, stream=True)
        answer = read(client.post("/v1/messages", json=body))
        assert (len(answer.calls), answer.text) == (1, "")
        unclosed = KIMI_CALL.replace("<|tool_calls_section_end|>", "")
        upstream.script("moonshotai/kimi-strict", reply(stream({"content": unclosed})))
        body = ask("moonshotai/kimi-strict", tools=TOOLS)
        assert client.post("/v1/messages", json=body).status_code == 200
        gateway.edit("s = FormatSettings.objects.get(format='kimi'); s.strict = True; s.save()")
        assert client.post("/v1/messages", json=body).status_code == 502
    finally:
        gateway.edit(
            "s = FormatSettings.objects.get(format='kimi')\n"
            "s.strict = False; s.markers = {}; s.save()"
        )


def test_a_large_request_gets_a_notice(gateway, client, upstream):
    upstream.script("qwen/large", says("Hi"))
    edit = "s = FormatSettings.objects.get(format='qwen'); s.context_warning = {}; s.save()"
    gateway.edit(edit.format(2000))
    try:
        for size, expected in ((5000, ["content_large"]), (500, [])):
            response = client.post("/v1/messages", json=ask("qwen/large", "x" * size))
            notices = gateway.exchange(response)["notices"]
            assert [code for code, _, _ in notices] == expected
    finally:
        gateway.edit(edit.format(None))


def test_the_last_use_of_a_key_is_recorded(gateway, upstream, model):
    upstream.script(model, says("Hi"))
    query = "SELECT last_used_at FROM proxy_clientkey WHERE label = 'sk-athena-used-once'"
    with key_of(gateway, "sk-athena-used-once", "max_streams=None") as client:
        assert gateway.rows(query) == [{"last_used_at": None}]
        client.post("/v1/messages", json=ask(model))
    wait_for(lambda: gateway.rows(query)[0]["last_used_at"])


@pytest.fixture
def two_workers(upstream, tmp_path):
    gateway = Gateway(
        tmp_path,
        OPENROUTER_API_KEY="x" * 20,
        OPENROUTER_BASE_URL=upstream.url,
        ATHENA_WORKERS="2",
        **PRODUCT_SETTINGS,
    ).start()
    yield gateway
    gateway.stop()


@pytest.mark.realtime
def test_every_worker_rejects_a_revoked_key_within_two_seconds(two_workers, upstream):
    upstream.script("test/two", says("Hi"))
    url, headers = f"{two_workers.url}/v1/messages", {"x-api-key": KEY}

    def statuses(count):
        # Use a new connection each time, so that both workers answer.
        return {
            httpx.post(url, json=ask("test/two"), headers=headers).status_code for _ in range(count)
        }

    assert statuses(8) == {200}
    two_workers.manage(
        "shell",
        "--no-imports",
        "-c",
        "from proxy.models import *\nfrom django.utils import timezone\n"
        "k = ClientKey.objects.get(); k.revoked_at = timezone.now(); k.save()",
    )
    time.sleep(2)  # the promised time: after it, no request may be answered
    assert statuses(8) == {401}


BROKEN_ROWS = """
from django.db import connection
user = Upstream.objects.get(name='openrouter')
for name, field, value in (
    ('list', 'headers', '["a"]'), ('number', 'headers', '{"a": 1}'), ('line', 'headers', '{"a": "b\\\\r\\\\nc: d"}'),
    ('url', 'base_url', 'gopher://x'), ('port', 'base_url', 'http://x:y'),
    ('host', 'base_url', 'http://' + 'a' * 70 + '.invalid'), ('dialect', 'dialect', 'klingon'),
):
    broken = Upstream.objects.create(name=name, base_url=user.base_url)
    ModelRoute.objects.create(pattern='broken/' + name, upstream=broken)
    with connection.cursor() as cursor:
        cursor.execute(f'update proxy_upstream set {field} = %s where id = %s', [value, broken.pk])
FormatOverride.objects.create(pattern='test/override', format='unheard')
for name, models in (('null', 'null'), ('numbers', '[1]'), ('word', '"*"')):
    key = ClientKey(label=name)
    key.adopt('sk-athena-broken-key-' + name)
    key.save()
    with connection.cursor() as cursor:
        cursor.execute('update proxy_clientkey set allowed_models = %s where id = %s', [models, key.pk])
for name, markers in (('kimi', '["a"]'), ('qwen', '{"X": ["y"]}'), ('deepseek', '3')):
    with connection.cursor() as cursor:
        cursor.execute('update proxy_formatsettings set markers = %s where format = %s', [markers, name])
one = ModelRoute.objects.create(pattern='test/one', upstream=user, upstream_model='test/down')
two = ModelRoute.objects.create(pattern='test/two', upstream=user, upstream_model='test/down', fallback=one)
ModelRoute.objects.filter(pk=one.pk).update(fallback=two)
"""


@pytest.fixture
def own_gateway(upstream, tmp_path):
    """A gateway of its own, because the test damages the database."""
    gateway = Gateway(
        tmp_path, OPENROUTER_API_KEY="x" * 20, OPENROUTER_BASE_URL=upstream.url
    ).start()
    yield gateway
    gateway.stop()


def test_invalid_rows_do_not_stop_the_others(own_gateway, upstream):
    models = ["test/fine", "test/override", "moonshotai/kimi-x", "qwen/qwen-x", "deepseek/x"]
    for model in models:
        upstream.script(model, says("Hi"))
    own_gateway.edit(BROKEN_ROWS)
    for _ in range(2):
        with own_gateway.client() as client:
            for model in models:
                assert client.post("/v1/messages", json=ask(model)).status_code == 200
            for name in ("list", "number", "line", "url", "port", "host", "dialect"):
                # The default route must not answer instead.
                response = client.post("/v1/messages", json=ask(f"broken/{name}"))
                assert response.status_code == 502, name
                assert response.headers["x-athena-error"].startswith("upstream_")
        for name in ("null", "numbers", "word"):
            headers = {"x-api-key": f"sk-athena-broken-key-{name}"}
            response = httpx.post(
                f"{own_gateway.url}/v1/messages", json=ask("test/fine"), headers=headers
            )
            assert response.status_code == 401, name
        own_gateway.stop()
        own_gateway.start()


def test_circular_fallbacks_end(own_gateway, upstream):
    own_gateway.edit(BROKEN_ROWS)
    script = upstream.script("test/down", whole({"error": {"message": "no"}}, status=500))
    with own_gateway.client() as client:
        assert client.post("/v1/messages", json=ask("test/one")).status_code == 500
    assert len(script.requests) == 2


@pytest.mark.parametrize(("key", "status"), [(" sk-or-padded \n", 200), ("sk-or-“quoted”", 502)])
def test_a_key_that_an_http_header_cannot_carry_is_reported(upstream, tmp_path, key, status):
    gateway = Gateway(
        tmp_path,
        OPENROUTER_API_KEY="x" * 20,
        OPENROUTER_BASE_URL=upstream.url,
        HOUSE_API_KEY=key,
    ).start()
    script = upstream.script("test/key", says("Hi"))
    try:
        gateway.edit(
            "Upstream.objects.filter(name='openrouter').update(sealed_key='', key_variable='HOUSE_API_KEY')\n"
            "ConfigurationVersion.advance()"
        )
        with gateway.client() as client:
            response = client.post("/v1/messages", json=ask("test/key"))
    finally:
        gateway.stop()
    assert response.status_code == status
    if status == 200:
        assert script.last.headers["authorization"] == "Bearer sk-or-padded"
    else:
        assert response.headers["x-athena-error"] == "upstream_misconfigured"
        assert "quoted" not in response.text + gateway.log


def test_a_gateway_that_calls_itself_is_stopped(gateway, client):
    gateway.edit(
        f"u = Upstream(name='itself', base_url='{gateway.url}/v1'); u.store_key({KEY!r}); u.save()\n"
        "ModelRoute.objects.create(pattern='circle-*', upstream=u)"
    )
    response = client.post("/v1/messages", json=ask("circle-1"))
    assert response.status_code == 502
    assert "this gateway itself" in response.json()["error"]["message"]
    assert len(gateway.rows("SELECT id FROM proxy_exchange WHERE model = 'circle-1'")) <= 2


def test_drain_time_has_a_default_before_the_database_was_read():
    assert Configuration().drain_time == 30
