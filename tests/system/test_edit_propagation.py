"""An edit on a page of one process becomes live in another, under load and without failures.

Two gateway processes share one database. An operator edits in one; the other must notice by itself.
"""

import re
import statistics
import time

import pytest

from tests.support.background_load import Load
from tests.support.calls_in_text import KIMI_CALL
from tests.support.chat import TOOLS, ask, read, reply, says, stream
from tests.support.gateway import KEY, PRODUCT_SETTINGS, Gateway
from tests.support.muse import MODEL as MUSE_MODEL
from tests.support.muse import answer as muse_answer
from tests.support.operator_session import Operator

BUSY, STEERED = "load/busy", "load/steered-qwen"


@pytest.fixture
def both(upstream, tmp_path):
    environment = {"OPENROUTER_API_KEY": "x" * 20, "OPENROUTER_BASE_URL": upstream.url}
    gateways = [Gateway(tmp_path, **environment, **PRODUCT_SETTINGS).start() for _ in range(2)]
    yield gateways
    for gateway in gateways:
        gateway.stop()


def seconds_until(condition):
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < 60, "the edit did not become live"
        time.sleep(0.02)
    return time.monotonic() - began


@pytest.mark.realtime
def test_edits_and_revocations_reach_the_other_process_within_two_seconds(both, upstream):
    here, there = both
    upstream.script(BUSY, says("Good morning"))
    upstream.script(STEERED, reply(stream({"content": KIMI_CALL})))
    upstream.script(MUSE_MODEL, reply(muse_answer()))
    operator, waits = Operator(here), []
    with Load(both, BUSY) as load, there.client() as other:

        def calls(model=STEERED):
            body = ask(model, tools=TOOLS, stream=True)
            return len(read(other.post("/v1/messages", json=body)).calls)

        assert calls() == 0
        override = {"pattern": "load/ste*", "priority": "100", "active": "on"}
        operator.submit("/admin/proxy/formatoverride/add/", **override, format="kimi")
        waits.append(seconds_until(lambda: calls() == 1))
        listed = operator.get("/admin/proxy/formatoverride/")
        page = re.search(r"/admin/proxy/formatoverride/\d+/change/", listed)[0]
        operator.submit(page, **override, format="standard")
        waits.append(seconds_until(lambda: calls() == 0))

        assert calls(MUSE_MODEL) == 0
        definition = {
            "grammars-0-kind": "envelope",
            "grammars-0-markers-BLOCK": "<|do|>",
            "grammars-0-markers-BLOCK_END": "<|done|>",
            "detect-patterns": MUSE_MODEL,
        }
        add = "/admin/proxy/formatdefinition/add/?kind=envelope"
        operator.submit(add, name="muse", active="on", **definition)
        waits.append(seconds_until(lambda: calls(MUSE_MODEL) == 1))

        page = operator.submit("/admin/proxy/clientkey/add/", label="short-lived")
        key = re.search(r'id="key">([^<]+)<', page.text)[1]
        revoke = re.search(
            r"/admin/proxy/clientkey/\d+/change/\">short-lived",
            operator.get("/admin/proxy/clientkey/"),
        )
        number = re.search(r"\d+", revoke[0])[0]

        def status():
            headers = {"x-api-key": key}
            return other.post("/v1/messages", json=ask(BUSY), headers=headers).status_code

        waits.append(seconds_until(lambda: status() == 200))
        operator.submit(f"/admin/proxy/clientkey/{number}/revoke/")
        waits.append(seconds_until(lambda: status() == 401))
    operator.close()
    assert load.seen.keys() == {"Good morning"}, load.seen
    assert load.seen.total() > 50
    # The median, because this machine may be busy during one of the edits.
    assert statistics.median_high(waits) < 2, waits
    assert KEY not in here.log + there.log
