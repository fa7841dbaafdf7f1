"""Outages of the database: down, frozen, locked or full. Answers continue, and no row is lost.

The faults are real: a PostgreSQL server that is stopped or suspended, a database file that another
process has locked, and a full file system.
"""

import os
import sqlite3
import statistics
import subprocess
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import environ
import httpx
import pytest
from django.db import OperationalError

from athena_site.postgresql.base import DatabaseWrapper
from tests.support.background_load import Load
from tests.support.chat import ask, says
from tests.support.database import of_postgres, of_sqlite
from tests.support.gateway import KEY, NO_TLS, SHORT_TIMEOUTS, Gateway
from tests.support.metrics import scrape, value
from tests.support.operator_session import Operator
from tests.support.postgres_server import PostgresMissing, PostgresServer
from tests.support.scripted_upstream import whole
from tests.support.waiting import wait_for

# Seconds. A request that waited for the database would take two, with SHORT_TIMEOUTS. On a busy
# machine a single answer may take that long, too, but not half of them.
MAX_MEDIAN = 1
BUSY = "outage/busy"
UNAVAILABLE = {"detail": "The database is unavailable. Try again."}
UNKNOWN_KEY = "sk-athena-unknown-key"
UNKNOWN_TOKEN = {"authorization": "Bearer athena-unknown-token"}


@pytest.fixture(scope="module")
def server():
    """Private PostgreSQL server, because these tests stop and freeze it."""
    try:
        server = PostgresServer()
    except PostgresMissing as error:
        pytest.skip(f"NOT TESTED, the outages of PostgreSQL: {error}")
    with server:
        yield server


@pytest.fixture
def make(upstream, tmp_path):
    upstream.script(BUSY, says("Good morning"))
    gateways = []

    def make(**environment):
        gateway = Gateway(
            tmp_path, OPENROUTER_API_KEY="x" * 20, OPENROUTER_BASE_URL=upstream.url, **environment
        )
        gateways.append(gateway)
        return gateway

    yield make
    for gateway in gateways:
        if gateway.process is not None and gateway.process.poll() is None:
            gateway.stop()


def readyz(gateway):
    response = gateway.ready()
    return response.status_code, response.json()


def post(gateway, key=KEY, model=BUSY):
    return httpx.post(
        f"{gateway.url}/v1/messages",
        json=ask(model),
        headers={"x-api-key": key},
        timeout=30,
        verify=NO_TLS,
    )


def stored(gateway):
    return [row["request_id"] for row in gateway.rows("SELECT request_id FROM proxy_exchange")]


def wait_for_rows(gateway, ids):
    wait_for(lambda: len(stored(gateway)) >= len(ids))
    assert sorted(stored(gateway)) == sorted(ids)


def with_password(url):
    """Add a password to the URL; the server accepts any."""
    return url.replace("@", ":canary-password@", 1)


def assert_no_address(text, server):
    for part in ("canary-password", f":{server.port}", f"port {server.port}", f'"{server.port}'):
        assert part not in text


@contextmanager
def frozen(server):
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


@of_postgres
def test_a_start_waits_for_a_database_that_is_down(server, make):
    url = with_password(server.create_database())
    server.stop()
    gateway = make(DATABASE_URL=url).start(until="/healthz")
    assert readyz(gateway) == (
        503,
        {
            "status": "no configuration read yet",
            "degraded": ["database unreachable"],
            "configuration_version": None,
        },
    )
    refused = post(gateway)
    assert (refused.status_code, refused.headers["x-athena-error"]) == (503, "not_ready")
    assert refused.headers["retry-after"]
    server.start()
    wait_for(lambda: readyz(gateway)[0] == 200)
    wait_for(lambda: "Admin:" in gateway.log)
    answered = post(gateway)
    assert answered.status_code == 200
    wait_for_rows(gateway, [answered.headers["request-id"]])
    assert_no_address(gateway.log, server)


def workers(gateway):
    pid = gateway.process.pid
    children = subprocess.run(
        ["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False
    )
    return {int(line) for line in children.stdout.split()}


@of_postgres
def test_a_worker_that_crashes_in_an_outage_comes_back_ready(server, make):
    """N13: on every connection, whichever worker it reaches."""
    gateway = make(DATABASE_URL=server.create_database(), ATHENA_WORKERS="2").start()
    assert post(gateway).status_code == 200
    before = workers(gateway)
    server.stop()
    wait_for(lambda: readyz(gateway)[1]["degraded"][:1] == ["database unreachable"])
    victims = {pid for pid in before if is_serving(gateway, pid)}
    os.kill(max(victims), 9)
    wait_for(lambda: workers(gateway) - before)
    (new,) = workers(gateway) - before
    seen = set()

    def has_been_asked():
        """Every answer is ready, also those of the new worker."""
        with suppress(httpx.TransportError):  # a connection of the worker that was killed
            seen.add(readyz(gateway)[0])
        return gateway.log.count("is live from disk") and is_serving(gateway, new)

    wait_for(has_been_asked)
    for _ in range(100):
        seen.add(readyz(gateway)[0])
        assert post(gateway).status_code == 200
    assert seen == {200}
    server.start()
    wait_for(lambda: readyz(gateway)[1]["degraded"] == [])


def is_serving(gateway, pid):
    """Return whether the process is a worker, not the helper of multiprocessing."""
    with suppress(FileNotFoundError):
        return b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@of_postgres
def test_every_row_is_written_after_an_outage_of_postgresql_under_load(server, make):
    gateway = make(DATABASE_URL=with_password(server.create_database())).start()
    operator = Operator(gateway)
    with Load([gateway], BUSY) as load:
        wait_for(lambda: len(load.ids) > 20)
        server.stop()
        wait_for(lambda: readyz(gateway)[1]["degraded"][:1] == ["database unreachable"])
        wait_for(lambda: len(readyz(gateway)[1]["degraded"]) == 2)
        assert readyz(gateway)[0] == 200, "requests with a known key are still answered"
        unknown = post(gateway, UNKNOWN_KEY)
        assert (unknown.status_code, unknown.headers["x-athena-error"]) == (
            503,
            "keys_unavailable",
        )
        page = operator._pages.get("/admin/")
        assert (page.status_code, "The database is unavailable" in page.text) == (503, True)
        assert "Good morning" not in page.text
        api = operator._pages.get("/api/exchanges/")
        assert (api.status_code, api.json()) == (503, UNAVAILABLE)
        assert_no_address(page.text + api.text, server)
        wait_for(lambda: value(scrape(gateway.url), "athena_audit_queue_depth") > 200)
        assert value(scrape(gateway.url), "athena_journal_bytes") > 10_000
        during = len(load.ids)
        server.start()
        wait_for(lambda: readyz(gateway)[1]["degraded"] == [])
        wait_for(lambda: len(load.ids) > during + 5)
    assert load.seen.keys() == {"Good morning"}, load.seen
    assert statistics.median(load.durations) < MAX_MEDIAN
    wait_for_rows(gateway, load.ids)
    wait_for(lambda: value(scrape(gateway.url), "athena_journal_bytes") == 0)
    assert value(scrape(gateway.url), "athena_audit_dropped_total") == 0
    sums = "SELECT requests FROM proxy_trafficsum WHERE span = 'day' AND facet = 'all'"
    assert sum(row["requests"] for row in gateway.rows(sums)) == len(load.ids)
    assert operator.get("/admin/")
    operator.close()
    assert_no_address(gateway.log, server)
    assert "Traceback" not in gateway.log


PAGES = ("/admin/", "/admin/audit/", "/admin/proxy/upstream/", "/admin/login/")


@of_postgres
def test_pages_explain_an_outage_to_users_with_a_session(server, make):
    gateway = make(DATABASE_URL=with_password(server.create_database())).start()
    operator = Operator(gateway)
    session = operator._pages.cookies["sessionid"]
    operator.close()
    server.stop()
    try:
        for cookie in (session, "nonsense", "x" * 32):
            with httpx.Client(
                base_url=gateway.url, timeout=30, cookies={"sessionid": cookie}, verify=NO_TLS
            ) as browser:
                for path in PAGES:
                    page = browser.get(path)
                    assert page.status_code == 503, (path, cookie)
                    assert "The database is unavailable" in page.text, (path, cookie)
                    assert "sessionid" not in page.cookies, "the session must not end"
                for path in ("/api/exchanges/", "/api/docs/"):
                    answer = browser.get(path)
                    assert (answer.status_code, answer.json()) == (503, UNAVAILABLE), (path, cookie)
    finally:
        server.start()
    assert_no_address(gateway.log, server)
    assert "Traceback" not in gateway.log


@of_postgres
def test_a_frozen_database_delays_neither_requests_nor_the_shutdown(server, make):
    gateway = make(DATABASE_URL=with_password(server.create_database()), **SHORT_TIMEOUTS).start()
    gateway.edit("GatewaySettings.objects.update(drain_time=2); ConfigurationVersion.advance()")
    with Load([gateway], BUSY) as load:
        wait_for(lambda: len(load.ids) > 10)
        with frozen(server):
            before = len(load.durations)
            wait_for(lambda: "database unreachable" in readyz(gateway)[1]["degraded"])
            wait_for(lambda: len(load.durations) > before + 20)
            during = load.durations[before:]
            unknown = post(gateway, UNKNOWN_KEY)
            assert unknown.headers["x-athena-error"] == "keys_unavailable"
            page = httpx.get(f"{gateway.url}/api/exchanges/", headers=UNKNOWN_TOKEN, timeout=40)
            assert (page.status_code, page.json()) == (503, UNAVAILABLE)
        # The same process recovers by itself.
        wait_for(lambda: readyz(gateway)[1]["degraded"] == [])
        before = len(load.ids)
        wait_for(lambda: len(load.ids) > before + 10)
    assert load.seen.keys() == {"Good morning"}, load.seen
    assert statistics.median(during) < MAX_MEDIAN
    wait_for_rows(gateway, load.ids)
    with frozen(server):
        wait_for(lambda: "database unreachable" in readyz(gateway)[1]["degraded"])
        last = [post(gateway).headers["request-id"] for _ in range(3)]
        began = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - began < 40
    assert sorted(stored(gateway)) == sorted(load.ids), "the last rows are in the journal"
    gateway.start()
    wait_for_rows(gateway, [*load.ids, *last])
    assert_no_address(gateway.log, server)


@of_postgres
def test_a_connection_to_a_frozen_server_times_out(server, django_db_blocker):
    settings = environ.Env.db_url_config(server.create_database())
    with django_db_blocker.unblock(), closing(wrapper(settings)) as database:
        assert show(database, "statement_timeout") == "10s"
        assert show(database, "lock_timeout") == "5s"
        with database.patience(90):
            assert show(database, "statement_timeout") == "90s"
        assert show(database, "statement_timeout") == "10s"
        database.connection.patience = 1
        with frozen(server):
            began = time.monotonic()
            with pytest.raises(OperationalError):
                show(database, "statement_timeout")
            assert database.connection.closed
            with closing(wrapper(settings)) as another, pytest.raises(OperationalError):
                another.ensure_connection()
            assert time.monotonic() - began < 45


def wrapper(settings):
    """Return a connection of its own, beside Django's."""
    options = {"connect_timeout": 2}
    defaults = {"TIME_ZONE": None, "AUTOCOMMIT": True, "CONN_MAX_AGE": 0, "TEST": {}}
    defaults |= {"CONN_HEALTH_CHECKS": False, "ATOMIC_REQUESTS": False}
    return DatabaseWrapper({**defaults, **settings, "OPTIONS": options}, "another")


def show(database, name):
    with database.cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        return cursor.fetchone()[0]


@of_sqlite
def test_a_locked_sqlite_file_does_not_delay_requests(make, upstream, model):
    gateway = make(**SHORT_TIMEOUTS).start()
    upstream.script(model, says("Hi"))
    path = gateway.data_dir / "athena.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN EXCLUSIVE")
        ids, durations = [], []
        while "exchanges wait for the database" not in gateway.log:  # the first write failed
            response = post(gateway, model=model)
            assert response.status_code == 200
            durations.append(response.elapsed.total_seconds())
            ids.append(response.headers["request-id"])
            refused = post(gateway, UNKNOWN_KEY).status_code
            assert refused == 401, "the keys can still be read"
        assert statistics.median(durations) < MAX_MEDIAN
        wait_for(lambda: "audit waiting for the database" in readyz(gateway)[1]["degraded"])
        assert readyz(gateway)[0] == 200
        other.execute("ROLLBACK")
    query = "SELECT request_id FROM proxy_exchange WHERE model = ?"
    wait_for(lambda: len(gateway.rows(query, model)) == len(ids))
    assert {row["request_id"] for row in gateway.rows(query, model)} == set(ids)
    wait_for(lambda: readyz(gateway)[1]["degraded"] == [])


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 12 MB."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("NOT TESTED, a full disk: nothing can be mounted here")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


@of_sqlite
def test_a_full_disk_does_not_delay_requests(small_disk, upstream, tmp_path):
    upstream.script(BUSY, says("Good morning"))
    gateway = Gateway(small_disk, OPENROUTER_API_KEY="x" * 20, OPENROUTER_BASE_URL=upstream.url)
    gateway.log_path = tmp_path / "gateway.log"
    gateway.start()
    ids = []

    def ask_some():
        for _ in range(8):
            response = post(gateway)
            assert response.status_code == 200
            ids.append(response.headers["request-id"])

    def is_degraded():
        status, body = readyz(gateway)
        assert status == 200
        return set(body["degraded"]) >= {"journal not writable", "audit waiting for the database"}

    try:
        with (small_disk / "junk").open("wb", buffering=0) as junk:
            try:
                while junk.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        ask_some()
        wait_for(is_degraded)
        (small_disk / "junk").unlink()
        wait_for_rows(gateway, ids)
        ask_some()
        wait_for_rows(gateway, ids)
        wait_for(lambda: readyz(gateway)[1]["degraded"] == [])
    finally:
        gateway.stop()
    assert "Traceback" not in gateway.log


def test_a_flood_of_failures_is_counted_and_sampled_and_does_not_delay_requests(
    gateway, upstream, model
):
    edit = "s = GatewaySettings.objects.get(); s.failures_per_hour = {}; s.save()"
    gateway.edit(edit.format(20))
    upstream.script(model, whole({"error": {"message": "no"}}, status=500))
    upstream.script(BUSY, says("Good morning"))
    number = 400
    with Load([gateway], model, clients=8) as flood, Load([gateway], BUSY, clients=1) as load:
        wait_for(lambda: len(flood.ids) >= number)
    assert load.seen.keys() == {"Good morning"}
    assert statistics.median(load.durations) < MAX_MEDIAN
    query = "SELECT group_id, count(*) AS n FROM proxy_exchange WHERE model = ? GROUP BY group_id"
    wait_for(lambda: sum(row["n"] for row in gateway.rows(query, model)) == len(flood.ids))
    rows = gateway.rows(query, model)
    assert len(rows) == 1, "one kind of failure"
    transcripts = gateway.rows(
        "SELECT count(*) AS n FROM proxy_transcript WHERE exchange_id IN"
        " (SELECT id FROM proxy_exchange WHERE model = ?)",
        model,
    )
    gateway.edit(edit.format(100_000))
    assert transcripts[0]["n"] <= 40, "twenty an hour, and a new hour may have started"
