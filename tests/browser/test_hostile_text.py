"""Untrusted text is shown as text on every page (faults X5, X6 and X7).

Hostile payloads are stored in every field that a client, model, upstream or operator can fill, and
every page is opened in Chromium. No payload runs, nothing is loaded from another host, and the
browser reports no violation of the content security policy.
"""

import json

import httpx
import pytest

from tests.browser.traffic import wait_for_exchanges
from tests.support.chat import ask, reply
from tests.support.scripted_upstream import whole
from tests.support.wire import stream

ELSEWHERE = "http://127.0.0.9:9/stolen"
PAYLOADS = [
    "<script>window.__xss=1</script>",
    "</script><script>window.__xss=1</script>",
    "<img src=x onerror=window.__xss=1>",
    f'<img src="{ELSEWHERE}">',
    f"![pixel]({ELSEWHERE}) [click]({ELSEWHERE})",
    "<svg/onload=window.__xss=1>",
    "'\"><svg onload=window.__xss=1>",
    "javascript:window.__xss=1",
    "<a href=javascript:window.__xss=1>here</a>",
    "{{7*7}}{% debug %}<iframe srcdoc='<script>parent.__xss=1</script>'>",
    f"<style>@import '{ELSEWHERE}';body{{background:url({ELSEWHERE})}}</style>",
    f"<link rel=stylesheet href={ELSEWHERE}><base href={ELSEWHERE}><meta http-equiv=refresh content=0;{ELSEWHERE}>",
    "</textarea></pre></title><script>window.__xss=1</script>",
    "\u2028window.__xss=1\u2029<!--<script>",
    "\u202egnp.exe\u202c\u200b<b onmouseover=window.__xss=1>",
]
ALL = " ".join(PAYLOADS)
MODEL = "<img src=x onerror=window.__xss=1>'\"</script>"
PAGES = [
    "/admin/",
    "/admin/audit/",
    "/admin/audit/?outcome=failed",
    "/admin/audit/?model=%3Cimg%20src%3Dx%20onerror%3Dwindow.__xss%3D1%3E",
    "/admin/audit/?q=%22%3E%3Csvg%20onload%3Dwindow.__xss%3D1%3E",
    "/admin/rules/?model=%22%3E%3Csvg%20onload%3Dwindow.__xss%3D1%3E",
    "/admin/changes/",
    "/admin/configuration/",
    "/admin/usage/",
    "/admin/playground/",
    "/admin/proxy/upstream/",
    "/admin/proxy/modelroute/",
    "/admin/proxy/formatoverride/",
    "/admin/proxy/formatdefinition/",
    "/admin/formats/hostile/",
    "/admin/audit/?leaked=any",
    "/admin/proxy/formatdefinition/add/?copy=hostile&try_model=%22%3E%3Csvg%20onload%3Dwindow.__xss%3D1%3E",
    "/admin/proxy/clientkey/",
    "/admin/proxy/modelroute/add/",
    "/admin/auth/user/",
    "/api/docs/",
]


@pytest.fixture(scope="module")
def poisoned(gateway, upstream):
    """Store hostile text in every column that accepts text."""
    gateway.edit(
        "from django.contrib.auth.models import User\n"
        f"P = {ALL!r}\n"
        "s = GatewaySettings.objects.get(); s.sample_calls = s.sample_others = 1; s.save()\n"
        "User.objects.create_superuser('superuser', '', 'a staff member\\'s password')\n"
        "User.objects.update(first_name=P[:100], last_name=P[100:200])\n"
        "k = ClientKey(label=P[:100]); k.adopt('sk-athena-hostile-key'); k.save()\n"
        f"u = Upstream.objects.create(name='hostile', base_url={upstream.url!r},"
        " headers={'X-Note': P.encode('ascii', 'ignore').decode()[:500]})\n"
        "o = Upstream.objects.get(name='openrouter')\n"
        "r = ModelRoute(pattern='hostile*', upstream=u, upstream_model=P[:200], listed_as=P[:200])\n"
        "r.save(); r.priority = 7; r.save()\n"
        "FormatOverride.objects.create(pattern='hostile-*', format='kimi', note=P[:200])\n"
        "FormatDefinition.objects.create(name='hostile', note=P[:200], definition={'grammars':"
        " [{'kind': 'envelope', 'markers': {'BLOCK': [P[:60]]}}], 'sample': P})"
    )
    call = {
        "index": 0,
        "id": ALL[:200],
        "function": {"name": ALL[:60], "arguments": json.dumps({ALL: ALL})},
    }
    tool = {"name": "f", "description": ALL, "input_schema": {"type": "object", "title": ALL}}
    answers = [
        reply(stream({"content": ALL}, {"reasoning_content": ALL})),
        reply(stream({"tool_calls": [call]}, finish="tool_calls")),
        reply(stream({"content": f"<|tool_calls_section_begin|>{ALL}<|tool_call_begin|>{ALL}"})),
        whole(
            {"error": {"message": ALL, "code": ALL, "metadata": {"provider_name": ALL}}}, status=500
        ),
        whole({"error": {"message": ALL}}, status=400),
        whole(f"<html>{ALL}</html>".encode(), status=502),
        reply(b"data: {" + ALL.encode() + b"\n\n"),
    ]
    last = None
    agent = ALL.encode()[:400].decode("utf-8", "ignore")
    headers = {"user-agent": agent.encode(), "x-claude-code-session-id": agent.encode()}
    with gateway.client() as client:
        for model in (MODEL, "moonshotai/kimi-hostile"):
            for answer in answers:
                upstream.script(model, answer)
                body = ask(model, text=ALL, system=ALL, tools=[tool], stream=True)
                last = client.post("/v1/messages", json=body, headers=headers)
        client.post("/v1/messages", json=ask(ALL))
        client.get("/v1/models/" + "x" + httpx.URL(path="/" + MODEL).raw_path.decode())
    assert last is not None
    gateway.exchange(last)
    wait_for_exchanges(gateway, 2 * len(answers))
    upstream.script("/v1/models", whole({"data": [{"id": payload} for payload in PAYLOADS]}))
    return gateway


def test_hostile_text_runs_and_loads_nothing_on_any_page(poisoned, people):
    exchanges = poisoned.rows("SELECT request_id AS id FROM proxy_exchange")
    groups = poisoned.rows("SELECT id FROM proxy_failuregroup")
    keys = poisoned.rows("SELECT id FROM proxy_clientkey ORDER BY id DESC LIMIT 1")
    hostile = poisoned.rows("SELECT id FROM proxy_upstream WHERE name = 'hostile'")[0]["id"]
    route = poisoned.rows("SELECT id FROM proxy_modelroute WHERE priority = 7")[0]["id"]
    pages = [
        *PAGES,
        *(f"/admin/audit/exchanges/{row['id']}/" for row in exchanges),
        *(f"/admin/audit/groups/{row['id']}/" for row in groups),
        *(f"/admin/proxy/clientkey/{row['id']}/{page}/" for row in keys for page in ("change", "history", "rotate", "revoke")),
        *(f"/admin/proxy/upstream/{hostile}/{page}/" for page in ("change", "history", "test", "models", "delete")),
        *(f"/admin/proxy/modelroute/{route}/{page}/" for page in ("change", "history", "delete")),
    ]  # fmt: skip
    asked = []
    with people("superuser") as person:
        page = person.page
        page.on("request", lambda request: asked.append(request.url))
        page.add_init_script(
            "document.addEventListener('securitypolicyviolation',"
            " e => { window.__xss = 'policy: ' + e.violatedDirective + ' ' + e.blockedURI })"
        )
        page.on("dialog", lambda dialog: person.browser_errors.append(dialog.message))
        for path in pages:
            person.visit(path)
            assert page.evaluate("window.__xss") is None, path
            assert person.browser_errors == [], path
            assert (
                page.locator("img[src*='127.0.0.9'], iframe, base, [onerror], [onload]").count()
                == 0
            ), path
            assert (
                page.locator("a[href^='javascript'], a[href^='http://127.0.0.9']").count() == 0
            ), path
        assert "onerror" in page.content() or "hostile" in page.content()  # shown as text
        # Paste hostile text into the playground, too.
        person.visit("/admin/playground/")
        page.fill("#id_text", ALL)
        page.fill("#id_model", "kimi-k2")
        page.click("button:has-text('Decode')")
        assert page.evaluate("window.__xss") is None
        elsewhere = [url for url in asked if not url.startswith((poisoned.url, "data:"))]
    assert elsewhere == []
    assert len(pages) > 40
