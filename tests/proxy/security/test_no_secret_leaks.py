"""Sends secrets through a real gateway, and searches for them everywhere.

`tests/proxy/audit/test_exchange_rows.py` does this with every kind of secret at every place of a
conversation. Here it is the gateway's own secrets, with failures of every kind, and every page,
export and log that could show them.
"""

import re

import httpx
import pytest

from tests.support.access_table import PAGES
from tests.support.chat import ask, chunk, data, reply
from tests.support.database import dump
from tests.support.gateway import Gateway
from tests.support.operator_session import Operator
from tests.support.scripted_upstream import Close, Reset, whole
from tests.support.wire import stream

CLIENT = "canary0client0key0sQ7vX2"  # matches no pattern: found only as a known secret
STORED = "canary0upstream0key0w9Lk"
HEADER = "canary0header0value0Zt4m"
VARIABLE = "sk-or-canary0variable0key0Hd3"
PASSWORD = "canary0password0of0the0admin"
SECRETS = (CLIENT, STORED, HEADER, VARIABLE, PASSWORD)
MODEL, DIRECT = "canary/model", "canary/direct"


@pytest.fixture(scope="module")
def own_gateway(upstream, tmp_path_factory):
    """Gateway with known secrets that keeps every transcript and logs every detail."""
    gateway = Gateway(
        tmp_path_factory.mktemp("secrets"),
        OPENROUTER_API_KEY=VARIABLE,
        OPENROUTER_BASE_URL=upstream.url,
        ATHENA_CLIENT_KEY=CLIENT,
        ATHENA_ADMIN_PASSWORD=PASSWORD,
        ATHENA_LOG_LEVEL="DEBUG",
    ).start()
    gateway.edit(
        "s = GatewaySettings.objects.get(); s.sample_calls = s.sample_others = 1; s.save()\n"
        f"u = Upstream(name='echo', base_url={upstream.url!r},"
        f" headers={{'X-Tenant-Token': {HEADER!r}}}, first_byte_timeout=1)\n"
        f"u.store_key({STORED!r}); u.save()\n"
        f"ModelRoute.objects.create(pattern={MODEL!r}, upstream=u)\n"
        f"a = Upstream(name='direct', dialect='anthropic', base_url={upstream.url!r},"
        f" headers={{'X-Tenant-Token': {HEADER!r}}})\n"
        f"a.store_key({STORED!r}); a.save()\n"
        f"ModelRoute.objects.create(pattern={DIRECT!r}, upstream=a)\n"
        "u.idle_timeout = 77; u.save()"  # a change for the history
    )
    yield gateway
    gateway.stop()


def send_requests(gateway, upstream):
    """Requests with every kind of answer, each with the secrets that the upstream got."""
    secrets = f"{STORED} {HEADER}"
    half = [
        {"content": part} for part in (f"{STORED[:9]}", f"{STORED[9:]} {HEADER[:7]}", HEADER[7:])
    ]
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": f'{{"k":"{STORED}'}}
    answers_by_kind = [
        reply(stream({"content": secrets})),
        reply(stream(*half)),
        reply(*map(chunk, half), Reset, ends=False),
        reply(chunk({"tool_calls": [call]}), Close, ends=False),
        reply(chunk({"content": "x"}), data({"error": {"message": secrets}})),
        reply(chunk({"content": "x"}), f"data: {{{secrets}\n\n".encode()),
        whole({"error": {"message": secrets}}, status=400),
        whole({"error": {"message": secrets}}, status=401),
        whole(
            {"error": {"message": secrets}}, status=429, headers=[f"x-ratelimit-note: {secrets}"]
        ),
        whole({"error": {"message": secrets}}, status=500),
        whole(f"<html>{secrets}</html>".encode(), status=502),
        whole({"type": "error", "error": {"type": "api_error", "message": secrets}}, status=500),
        reply(b"", status=302, headers=[f"location: http://elsewhere.invalid/{STORED}"]),
        [f"HTTP/1.1 200 {secrets}\r\n{secrets}\r\n\r\n".encode()],
        reply(secrets.encode(), headers=[f"content-encoding: {STORED}"]),
    ]
    answers = []
    headers = {"x-api-key": CLIENT}
    with httpx.Client(base_url=gateway.url, headers=headers, timeout=30, trust_env=False) as client:
        for answer in answers_by_kind:
            for model in (MODEL, DIRECT):
                upstream.script(model, answer)
                for is_streaming in (True, False):
                    body = ask(model, text=f"Authorization: Bearer {CLIENT}", stream=is_streaming)
                    answers.append(client.post("/v1/messages", json=body))
        wrong = {"x-api-key": "canary0wrong0key"}
        client.post("/v1/messages", json=ask(MODEL), headers=wrong)
        client.get(f"/v1/models?key={CLIENT}")
        client.post("/v1/messages", content=f'{{"model": "{CLIENT}', headers=headers)
        client.get("/admin/login/", headers={"cookie": f"sessionid={STORED}"})
    return answers


def test_the_gateways_own_secrets_leak_nowhere(own_gateway, upstream):
    """X1, X2, O8."""
    answers = send_requests(own_gateway, upstream)
    seen = {f"answer {n}": f"{a.headers} {_rejection(a)}" for n, a in enumerate(answers)}
    seen["metrics"] = httpx.get(f"{own_gateway.url}/metrics", trust_env=False).text
    own_gateway.exchange(answers[-1])  # the last row is written, so all are
    operator = Operator(own_gateway)
    pages = operator._pages
    for name, route in PAGES:
        for url in _addresses(own_gateway, route):
            response = pages.get(url)
            assert response.status_code < 500, (name, url, response.status_code)
            seen[f"page {url}"] = response.text
    for upstream_row in own_gateway.rows("SELECT id FROM proxy_upstream"):
        url = f"/admin/proxy/upstream/{upstream_row['id']}/test/"
        seen[f"POST {url}"] = operator.submit(url, model=MODEL).text
    operator.close()
    seen["export"] = own_gateway.manage("config", "export").stdout
    seen["dumpdata"] = own_gateway.manage("dumpdata").stdout
    seen["doctor"] = own_gateway.manage("doctor").stdout
    assert "echo" in seen["export"]
    assert "proxy.upstream" in seen["dumpdata"]
    assert len(seen) > 150
    own_gateway.stop()
    seen["log"] = own_gateway.log
    seen["database"] = dump(own_gateway.environment["DATABASE_URL"])
    assert "sealed:" in seen["database"]
    for path in own_gateway.data_dir.rglob("*"):
        if path.is_file() and path.name != "secret_key":
            seen[f"file {path.name}"] = path.read_bytes().decode("latin-1")
    leaks = [
        (place, secret) for place, text in seen.items() for secret in SECRETS if secret in text
    ]
    assert not leaks, "\n".join(map(str, leaks))
    own_gateway.start()  # the fixture stops it


def _rejection(answer):
    """Text that the gateway wrote. The text of a model reaches the client unchanged."""
    return answer.text if answer.status_code != 200 else ""


def _addresses(gateway, route):
    """The URLs of a route: for an exchange of each kind, each upstream, and each group."""
    ids = [row["id"] for row in gateway.rows("SELECT id FROM proxy_upstream")]
    if "<slug:request_id>" in route:
        rows = gateway.rows("SELECT max(request_id) AS id FROM proxy_exchange GROUP BY error_code")
        return ["/" + route.replace("<slug:request_id>", row["id"]) for row in rows]
    if "groups/<int:pk>" in route:
        rows = gateway.rows("SELECT id FROM proxy_failuregroup")
        return ["/" + route.replace("<int:pk>", str(row["id"])) for row in rows]
    if "upstream" in route and "<" in route and "(" not in route:
        return ["/" + re.sub(r"<[^>]+>", str(number), route) for number in ids]
    if "logout" in route or "(" in route:
        route = re.sub(r"\(\?P<\w+>[^)]*\)", "1", route).replace("^", "").replace("$", "")
        return [] if "logout" in route else ["/" + route]
    return ["/" + re.sub(r"<[^>]+>", "1", route)]
