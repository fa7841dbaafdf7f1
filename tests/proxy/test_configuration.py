"""An edit is live in every worker within two seconds, and no request notices."""

import threading
import time

import httpx
import pytest

from tests.proxy.conversation import TOOLS, ask, read, reply, says, stream
from tests.proxy.gateway import KEY, Gateway
from tests.proxy.test_streaming import wait_for

TEXT = '<|tool_calls_section_begin|><|tool_call_begin|>functions.get_tide:0<|tool_call_argument_begin|>{"harbor":"Moss"}<|tool_call_end|><|tool_calls_section_end|>'


def test_an_override_makes_an_unknown_model_understood_without_a_restart(gateway, client, upstream):
    name = "house/unheard-of"
    upstream.script(name, reply(stream({"content": TEXT})))
    body = ask(name, tools=TOOLS, stream=True)
    assert "tool_calls_section" in read(client.post("/v1/messages", json=body)).text
    gateway.edit("FormatOverride.objects.create(pattern='house/*', format='kimi')")
    assert read(client.post("/v1/messages", json=body)).calls[0]["arguments"] == {"harbor": "Moss"}


def test_a_request_keeps_its_snapshot_to_the_end(gateway, client, upstream):
    from tests.proxy.conversation import chunk
    from tests.proxy.upstream import Pause

    name = "steady/model"
    upstream.script(
        name, reply(chunk({"content": TEXT[:40]}), Pause(2), stream({"content": TEXT[40:]}))
    )
    seen = []
    worker = threading.Thread(
        target=lambda: seen.append(
            read(client.post("/v1/messages", json=ask(name, tools=TOOLS, stream=True)))
        )
    )
    worker.start()
    gateway.edit("FormatOverride.objects.create(pattern='steady/*', format='kimi')")
    worker.join()
    assert "tool_calls_section" in seen[0].text


def test_markers_and_strictness_of_a_format_are_the_operators(gateway, client, upstream):
    name = "deepseek/spelled"
    spelled = TEXT.replace("tool_calls_section", "house_calls")
    upstream.script("moonshotai/kimi-spelled", reply(stream({"content": spelled})))
    upstream.script(name, reply(stream({"content": "x"})))
    gateway.edit(
        "s = FormatSettings.objects.get(format='kimi')\n"
        "s.markers = {'SECTION_BEGIN': ['<|house_calls_begin|>'], 'SECTION_END': ['<|house_calls_end|>']}\n"
        "s.full_clean(); s.save()"
    )
    body = ask("moonshotai/kimi-spelled", tools=TOOLS, stream=True)
    seen = read(client.post("/v1/messages", json=body))
    assert (len(seen.calls), seen.text) == (1, "")
    unclosed = TEXT.replace("<|tool_calls_section_end|>", "")
    upstream.script("moonshotai/kimi-strict", reply(stream({"content": unclosed})))
    body = ask("moonshotai/kimi-strict", tools=TOOLS)
    assert client.post("/v1/messages", json=body).status_code == 200
    gateway.edit("s = FormatSettings.objects.get(format='kimi'); s.strict = True; s.save()")
    assert client.post("/v1/messages", json=body).status_code == 502
    gateway.edit(
        "s = FormatSettings.objects.get(format='kimi'); s.strict = False; s.markers = {}; s.save()"
    )


def test_a_large_request_is_noticed(gateway, client, upstream):
    upstream.script("qwen/large", says("Hi"))
    gateway.edit(
        "s = FormatSettings.objects.get(format='qwen'); s.context_warning = 2000; s.save()"
    )
    client.post("/v1/messages", json=ask("qwen/large", "x" * 5000))
    wait_for(lambda: "content_large" in gateway.log)  # the line is written after the last byte


def test_the_use_of_a_key_is_remembered(gateway, client, upstream, model):
    upstream.script(model, says("Hi"))
    client.post("/v1/messages", json=ask(model))
    deadline = time.monotonic() + 4
    code = (
        "from proxy.models import *; print(ClientKey.objects.get(label='environment').last_used_at)"
    )
    while "None" in (shown := gateway.manage("shell", "--no-imports", "-c", code).stdout):
        assert time.monotonic() < deadline, shown


@pytest.fixture
def two_workers(upstream, tmp_path):
    gateway = Gateway(
        tmp_path, OPENROUTER_API_KEY="x" * 20, OPENROUTER_BASE_URL=upstream.url, ATHENA_WORKERS="2"
    ).start()
    yield gateway
    gateway.stop()


def test_a_revoked_key_is_refused_by_every_worker_within_two_seconds(two_workers, upstream):
    upstream.script("test/two", says("Hi"))
    url, headers = f"{two_workers.url}/v1/messages", {"x-api-key": KEY}

    def statuses(count):
        # A new connection each, so that both workers are asked.
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
    time.sleep(2)
    assert statuses(8) == {401}
