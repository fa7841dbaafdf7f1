"""Production: a gateway behind a TLS proxy, and the settings that it rejects."""

import re
import stat
from pathlib import Path

import httpx
import pytest

from proxy.checks import check_production
from proxy.configuration.diagnostics import security_findings
from proxy.configuration.snapshot import load
from proxy.models import ModelRoute, Upstream
from tests.support.chat import ask
from tests.support.database import empty_database_url
from tests.support.gateway import PRODUCT_SETTINGS, Gateway
from tests.support.waiting import wait_for

HOST = "gateway.example.org"
PROXY, STRANGER = "127.0.0.2", "127.0.0.1"
SECRET = "Zq3v8LkW1xN5tR7yB2mC4dF6gH9jK0pS-aU_eIoQwErTyUiOpLkJh"
GOOD = {
    **PRODUCT_SETTINGS,
    "ATHENA_PRODUCTION": "1",
    "ATHENA_SECRET_KEY": SECRET,
    "ATHENA_ALLOWED_HOSTS": HOST,
    "ATHENA_TRUSTED_PROXIES": f"{PROXY}/32",
}
WEAK = {
    "ATHENA_SECRET_KEY": "canary-weak-secret-of-forty-characters-xx",
    "ATHENA_ALLOWED_HOSTS": "*",
    "ATHENA_CLIENT_KEY": "canary-changeme-of-the-client",
    "ATHENA_ADMIN_PASSWORD": "canary",
    "ATHENA_TRUSTED_PROXIES": "",
}


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory):
    data_dir = Path(tmp_path_factory.mktemp("production"))
    gateway = Gateway(data_dir, **GOOD)
    del gateway.environment["ATHENA_ADMIN_PASSWORD"], gateway.environment["ATHENA_CLIENT_KEY"]
    gateway.start()
    yield gateway
    gateway.stop()


def browser(gateway, address=PROXY, **headers):
    """Return a browser behind a proxy, trusted or not, at this address."""
    forwarded = {"x-forwarded-proto": "https", "host": HOST, **headers}
    transport = httpx.HTTPTransport(local_address=address)
    return httpx.Client(base_url=gateway.url, headers=forwarded, transport=transport, timeout=30)


def log_in(client, name, password):
    page = client.get("/admin/login/")
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert token, page.text
    # httpx keeps secure cookies from plain addresses; a browser sees https.
    cookies = "; ".join(header.partition(";")[0] for header in page.headers.get_list("set-cookie"))
    return client.post(
        "/admin/login/",
        data={"csrfmiddlewaretoken": token[1], "username": name, "password": password},
        headers={"cookie": cookies, "referer": f"https://{HOST}/admin/login/"},
    )


def test_djangos_deployment_checks_pass(tmp_path):
    gateway = Gateway(tmp_path, **GOOD)
    done = gateway.manage("check", "--deploy", "--fail-level", "WARNING")
    assert done.returncode == 0, done.stderr
    assert "no issues (2 silenced)" in done.stderr + done.stdout


def test_weak_settings_are_refused_by_name_without_their_values(tmp_path):
    empty = {"DATABASE_URL": empty_database_url(tmp_path)}
    refused = Gateway(tmp_path, **GOOD | empty | WEAK).manage("serve")
    assert refused.returncode == 1
    for name in WEAK:
        assert name in refused.stderr
    assert "canary" not in refused.stderr + refused.stdout
    assert not (tmp_path / "athena.sqlite3").exists()


def test_a_refused_start_creates_no_secret_and_names_the_file_of_an_older_one(tmp_path):
    refused = Gateway(tmp_path, **GOOD | {"ATHENA_SECRET_KEY": ""}).manage("serve")
    assert refused.returncode == 1
    assert "athena.E001" in refused.stderr
    assert "the file secret_key in its data directory" in refused.stderr
    assert not (tmp_path / "secret_key").exists()


@pytest.mark.parametrize(
    ("name", "value", "number"),
    [
        ("ATHENA_SECRET_KEY", "", "E001"),
        ("ATHENA_SECRET_KEY", "a" * 60, "E001"),
        ("ATHENA_SECRET_KEY", f"django-insecure-{SECRET}", "E001"),
        ("ATHENA_CLIENT_KEY", "short-key", "E003"),
        ("ATHENA_CLIENT_KEY", "your-client-key-goes-here-0123", "E003"),
        ("ATHENA_ADMIN_PASSWORD", "password1234", "E004"),
        ("ATHENA_ADMIN_PASSWORD", "x7!kP", "E004"),
        ("ALLOWED_HOSTS", ["*"], "E002"),
        ("ALLOWED_HOSTS", ["gateway.example.org", "*"], "E002"),
        ("ALLOWED_HOSTS", ["localhost", "127.0.0.1"], "E002"),
        ("DEBUG", True, "E005"),
        ("TRUSTED_PROXIES", [], "E006"),
        ("TRUSTED_PROXIES", ["0.0.0.0/0"], "E007"),
        ("TRUSTED_PROXIES", ["10.0.0.1/32", "::/0"], "E007"),
        ("TRUSTED_PROXIES", ["128.0.0.0/7"], "E007"),
        ("TRUSTED_PROXIES", ["2000::/15"], "E007"),
        ("ALLOWED_HOSTS", [".org"], "E002"),
        ("ALLOWED_HOSTS", ["gateway.example.org", ".org."], "E002"),
        ("ALLOWED_HOSTS", ["*.example.org"], "E002"),
    ],
)
def test_each_weak_setting_has_its_own_finding(settings, monkeypatch, name, value, number):
    settings.PRODUCTION, settings.DEBUG = True, False
    settings.ALLOWED_HOSTS, settings.TRUSTED_PROXIES = [HOST], ["10.0.0.0/8"]
    for variable in ("ATHENA_CLIENT_KEY", "ATHENA_ADMIN_PASSWORD"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("ATHENA_SECRET_KEY", SECRET)
    assert check_production(None) == []
    if name.startswith("ATHENA_"):
        monkeypatch.setenv(name, value)
    else:
        setattr(settings, name, value)
    (found,) = check_production(None)
    assert found.id == f"athena.{number}"
    assert found.hint
    if name.startswith("ATHENA_"):
        assert name in found.msg
        assert not value or value not in found.msg
    settings.PRODUCTION = False
    assert check_production(None) == []


def test_an_invalid_list_of_addresses_is_refused_by_name(tmp_path):
    refused = Gateway(tmp_path, ATHENA_TRUSTED_PROXIES="no network").manage("check")
    assert refused.returncode == 1
    assert "ATHENA_TRUSTED_PROXIES" in refused.stderr


def test_pages_require_tls_and_clients_and_probes_are_not_redirected(production):
    with browser(production, STRANGER) as stranger:  # its x-forwarded-proto is ignored
        page = stranger.get("/admin/")
        assert (page.status_code, page.headers["location"]) == (301, f"https://{HOST}/admin/")
        assert stranger.get("/healthz").status_code == 200
        assert stranger.get("/readyz").status_code == 200
        assert stranger.post("/v1/messages", json=ask("m")).status_code == 401
        stranger.get("/admin/")
    warning = f"{STRANGER} sent x-forwarded-proto: https but is not in ATHENA_TRUSTED_PROXIES"
    wait_for(lambda: warning in production.log)
    assert production.log.count(warning) == 1  # at most once a minute
    with browser(production) as trusted:
        login = trusted.get("/admin/login/")
        assert login.status_code == 200
        assert login.headers["strict-transport-security"] == "max-age=31536000"
        (cookie,) = login.headers.get_list("set-cookie")
        for flag in ("HttpOnly", "SameSite=Lax", "Secure"):
            assert flag in cookie


def test_pages_refuse_an_unknown_host_name(production):
    with browser(production, host="evil.example.org") as client:
        assert client.get("/admin/login/").status_code == 400


def test_a_generated_password_is_in_a_file_and_not_in_the_log(production):
    path = production.data_dir / "admin_password"
    password = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert str(path) in production.log
    assert password not in production.log
    assert (production.data_dir / "client_key").read_text() not in production.log
    with browser(production) as client:
        done = log_in(client, "admin", password)
        assert done.status_code == 302
        session = next(h for h in done.headers.get_list("set-cookie") if "sessionid" in h)
        for flag in ("HttpOnly", "SameSite=Lax", "Secure", "Max-Age=28800"):
            assert flag in session


def test_lockout_uses_the_address_that_a_trusted_proxy_forwards(production):
    def guess(name, *, forwarded_for):
        with browser(production, **{"x-forwarded-for": forwarded_for}) as client:
            return log_in(client, name, "wrong").status_code

    statuses = [guess("admin", forwarded_for="203.0.113.9") for _ in range(5)]
    assert statuses == [200, 200, 200, 200, 429]
    assert guess("admin", forwarded_for="203.0.113.9") == 429
    assert (
        guess("admin", forwarded_for="198.51.100.7, 203.0.113.9") == 429
    )  # the address that the last hop added
    assert guess("admin", forwarded_for="198.51.100.7") == 200


def test_the_demo_is_the_only_upstream_allowed_on_this_machine(production, upstream):
    key = (production.data_dir / "client_key").read_text()
    production.edit(
        f"u = Upstream.objects.create(name='near', base_url={upstream.url!r})\n"
        "ModelRoute.objects.create(pattern='near-model', upstream=u)"
    )
    with httpx.Client(base_url=production.url, headers={"x-api-key": key}, timeout=30) as client:
        assert client.post("/v1/messages", json=ask("claude-sonnet-4-5")).status_code == 200
        refused = client.post("/v1/messages", json=ask("near-model"))
    assert refused.status_code == 502
    assert refused.headers["x-athena-error"] == "upstream_forbidden_address"
    assert "Warning: The default route leads to the demo" in production.log


def test_a_private_address_in_the_environment_is_refused_by_name(tmp_path, upstream):
    given = {"OPENROUTER_API_KEY": "sk-or-1", "OPENROUTER_BASE_URL": upstream.url}
    refused = Gateway(tmp_path, **GOOD, **given).manage("serve")
    assert refused.returncode == 1
    assert "OPENROUTER_BASE_URL" in refused.stderr
    assert "ATHENA_ALLOW_PRIVATE_UPSTREAMS" in refused.stderr


def test_a_key_sent_over_plain_http_causes_a_warning(configured, settings):
    def messages():
        return [(found.message, found.is_error) for found in security_findings(load())]

    row = Upstream(name="plain", base_url="http://api.example.org/v1")
    row.store_key("sk-1")
    row.save()
    ModelRoute.objects.create(pattern="plain", upstream=row)
    warned = "The upstream plain receives its key over plain HTTP. Use https://."
    assert messages() == [(warned, False)]
    settings.PRODUCTION = True
    assert (warned, True) in messages()
    row.base_url = "http://localhost:8001/v1"
    row.save()
    assert warned not in dict(messages())
