"""Two nodes of two workers each on one PostgreSQL, behind one address, under load."""

import os
import signal
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import httpx
import psycopg
import pytest

from tests.support.balancer import Balancer
from tests.support.chat import ask, chunk, read, reply, says, stream
from tests.support.client_keys import MAKE_KEY
from tests.support.concurrent_clients import Crowd
from tests.support.database import database_url, last_migration, of_postgres
from tests.support.gateway import KEY, NO_TLS, Gateway
from tests.support.scripted_upstream import Pause
from tests.support.waiting import wait_for

pytestmark = of_postgres

FLIPPED = "load/flipped"
REQUESTS = 1000
CLIENTS = 6
PROMISE = 2.0  # seconds until an edit is live everywhere


class Fleet:
    def __init__(self, upstream, folder):
        self.url = database_url(folder)
        shared = {
            "DATABASE_URL": self.url,
            "ATHENA_SECRET_KEY": "a-long-secret-that-all-nodes-share-0123456789",
            "ATHENA_WORKERS": "2",
            "OPENROUTER_API_KEY": "x" * 20,
            "OPENROUTER_BASE_URL": upstream.url,
        }
        self.nodes = []
        for name in ("one", "two"):
            (folder / name).mkdir()
            self.nodes.append(Gateway(folder / name, **shared))
        with ThreadPoolExecutor() as pool:
            list(pool.map(Gateway.start, self.nodes))
        self.balancer = Balancer([node.port for node in self.nodes])

    def client(self, key=KEY):
        """Return a client with a new connection for every request, so that any worker may get it."""
        return httpx.Client(
            base_url=self.balancer.url,
            headers={"x-api-key": key},
            limits=httpx.Limits(max_keepalive_connections=0),
            timeout=60,
            trust_env=False,
            verify=NO_TLS,
        )

    def rows(self, query, *values):
        return self.nodes[0].rows(query, *values)

    def change(self, *statements, version="number + 1"):
        """Edit in one transaction; return the version and the time of the commit."""
        with psycopg.connect(self.url) as connection:
            for statement in statements:
                connection.execute(statement)
            advance = f"UPDATE proxy_configurationversion SET number = {version} RETURNING number"  # noqa: S608
            (number,) = connection.execute(advance).fetchone()
        return number, time.monotonic()

    def workers(self):
        """Return the process numbers of the workers that write heartbeats."""
        fresh = "SELECT name FROM proxy_gatewayprocess WHERE seen_at > now() - interval '8 seconds'"
        return {int(row["name"].rpartition(":")[2]) for row in self.rows(fresh)}


@pytest.fixture(scope="module")
def fleet(upstream, tmp_path_factory):
    fleet = Fleet(upstream, tmp_path_factory.mktemp("fleet"))
    for word in ("old", "new"):
        upstream.script(f"load/{word}", says(word))
    upstream.script(FLIPPED, says("old"))  # for workers in which the route is not live yet
    fleet.nodes[0].edit(
        "u = Upstream.objects.get(name='openrouter')\n"
        f"ModelRoute.objects.create(pattern={FLIPPED!r}, upstream=u, upstream_model='load/old')"
    )
    wait_for(lambda: len(fleet.workers()) == 4)
    yield fleet
    for node in fleet.nodes:
        assert node.stop() == 0


def route_to(word):
    return f"UPDATE proxy_modelroute SET upstream_model = 'load/{word}' WHERE pattern = '{FLIPPED}'"  # noqa: S608


@dataclass
class Answer:
    began: float
    status: int
    request_id: str
    text: str


class Load(Crowd):
    """Clients that send requests through the balancer, and record every answer."""

    def __init__(self, fleet, key=KEY, clients=CLIENTS):
        super().__init__([self._ask] * clients)
        self.seen: list[Answer] = []
        self.failed: list[str] = []
        self._fleet, self._key = fleet, key

    def _ask(self, stopping):
        with self._fleet.client(self._key) as client:
            while not stopping.is_set():
                began = time.monotonic()
                try:
                    response = client.post("/v1/messages", json=ask(FLIPPED, stream=True))
                    text = read(response).text if response.status_code == 200 else response.text
                except (httpx.HTTPError, AssertionError) as error:
                    self.failed.append(repr(error))
                else:
                    request_id = response.headers["request-id"]
                    self.seen.append(Answer(began, response.status_code, request_id, text))

    def wait_for(self, count):
        wait_for(lambda: len(self.seen) >= count or self.failed, 240)

    def wait_after(self, moment):
        """Wait for enough requests after the promised time that every worker got some."""
        late = moment + PROMISE + 0.5
        wait_for(lambda: sum(one.began > late for one in list(self.seen)) >= 40)

    def last_of(self, moment, is_old):
        """Return the seconds from a moment to the start of the last request with the old answer."""
        return max([one.began - moment for one in self.seen if is_old(one)], default=0.0)


def check_rows(fleet, loads):
    """Check that each answered request gets exactly one row; return their ids."""
    wanted = sorted(one.request_id for load in loads for one in load.seen if one.status == 200)
    query = "SELECT request_id FROM proxy_exchange WHERE request_id = ANY(?)"

    def stored():
        return sorted(row["request_id"] for row in fleet.rows(query, wanted))

    wait_for(lambda: len(stored()) >= len(wanted))
    assert stored() == wanted
    return wanted


def processor_time(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_edits_and_revocations_reach_all_workers_of_all_nodes_and_no_request_is_lost(
    fleet, upstream
):
    first, _ = fleet.change(route_to("old"))
    fleet.nodes[0].edit(MAKE_KEY.format("sk-athena-short-lived", "max_streams=None"))
    parts = [part for _ in range(120) for part in (chunk({"content": "word "}), Pause(0.5))]
    upstream.script("load/slow", reply(*parts, stream({"content": "end"})))
    # For some seconds the list still has a worker that another test has killed.
    wait_for(lambda: len(fleet.workers()) == 4)
    spent = {pid: processor_time(pid) for pid in fleet.workers()}
    waits, versions = [], [(first, "load/old")]
    with Load(fleet) as load, Load(fleet, "sk-athena-short-lived", clients=2) as theirs:
        load.wait_for(REQUESTS // 4)
        for word, other in (("new", "old"), ("old", "new"), ("new", "old")):
            version, moment = fleet.change(route_to(word))
            versions.append((version, f"load/{word}"))
            load.wait_after(moment)
            waits.append(load.last_of(moment, lambda one, other=other: one.text == other))
        with ExitStack() as stack:
            client = stack.enter_context(fleet.client("sk-athena-short-lived"))
            body, streams = ask("load/slow", stream=True), []
            for _ in range(8):
                response = stack.enter_context(client.stream("POST", "/v1/messages", json=body))
                lines = response.iter_lines()
                assert any("word" in line for line in lines)
                streams.append((response, lines))
            revoke = "UPDATE proxy_clientkey SET revoked_at = now() WHERE label = 'sk-athena-short-lived'"
            _, moment = fleet.change(revoke)
            cut = [[line for line in lines if line][-3] for _, lines in streams]
            assert all("this client key was revoked" in line for line in cut), cut
            theirs.wait_after(moment)
            waits.append(theirs.last_of(moment, lambda one: one.status == 200))
        load.wait_for(REQUESTS)
    assert not load.failed
    assert not theirs.failed
    assert {one.status for one in load.seen} == {200}
    assert {one.status for one in theirs.seen} == {200, 401}
    assert len(load.seen) >= REQUESTS
    # The median, because this machine may be busy during one of the edits.
    assert statistics.median_high(waits) < PROMISE, waits
    assert fleet.workers() == spent.keys()
    assert all(processor_time(pid) > before for pid, before in spent.items())
    ids = check_rows(fleet, (load, theirs))
    # A request uses one version from start to end.
    query = "SELECT configuration_version AS v, upstream_model AS m FROM proxy_exchange WHERE request_id = ANY(?)"
    for row in fleet.rows(query, ids):
        expected = [model for version, model in versions if row["v"] >= version]
        # A slow worker may still have a version of another test.
        assert not expected or row["m"] == expected[-1], row


def test_a_restored_backup_with_a_lower_version_reaches_all_workers(fleet):
    version, _ = fleet.change(route_to("old"))
    # A worker that is still one version behind could not tell the backup from its own version.
    wait_for(lambda: [node._version() for node in fleet.nodes] == [version, version])
    with Load(fleet, clients=2) as load:
        load.wait_for(20)
        version, _ = fleet.change(route_to("new"), version="number - 2")
        wait_for(lambda: all(one.text == "new" for one in load.seen[-20:]))
        wait_for(lambda: [node._version() for node in fleet.nodes] == [version, version])
    assert not load.failed
    assert {one.status for one in load.seen} == {200}


# Changes that the next version may make: tests/proxy/database/test_schema.py forbids all others.
EXPANSION = [
    f"ALTER TABLE {table} ADD COLUMN {column}"
    for table in (
        "proxy_exchange",
        "proxy_transcript",
        "proxy_clientkey",
        "proxy_historicalclientkey",
        "proxy_modelroute",
        "proxy_historicalmodelroute",
        "proxy_gatewaysettings",
        "proxy_gatewayprocess",
        "proxy_trafficsum",
    )
    for column in ("next_text text NULL", "next_number integer NOT NULL DEFAULT 3")
] + [
    "CREATE TABLE proxy_next (id bigint PRIMARY KEY, key_id bigint REFERENCES proxy_clientkey (id))",
    "CREATE INDEX next_index ON proxy_exchange (next_number, id)",
]


def test_migrations_under_load_lose_no_request(fleet):
    with Load(fleet, clients=3) as load:
        load.wait_for(50)
        with psycopg.connect(fleet.url, autocommit=True) as connection:
            connection.execute("SET lock_timeout = '3s'")
            for statement in EXPANSION:
                connection.execute(statement)
        # This version must still be able to write every table, including the history.
        fleet.nodes[1].edit(
            MAKE_KEY.format("sk-athena-of-this-version", "max_streams=None")
            + f"\nModelRoute.objects.get(pattern={FLIPPED!r}).save()"
        )
        load.wait_for(len(load.seen) + 100)
        with fleet.client("sk-athena-of-this-version") as client:
            assert client.post("/v1/messages", json=ask(FLIPPED)).status_code == 200
    assert not load.failed
    assert {one.status for one in load.seen} == {200}
    check_rows(fleet, [load])


def test_a_restarted_worker_never_migrates_and_its_siblings_serve(fleet):
    before = fleet.workers()
    recorded = "SELECT id FROM django_migrations WHERE app = 'proxy' AND name = ?"
    with psycopg.connect(fleet.url, autocommit=True) as connection:
        statement = "UPDATE django_migrations SET app = %s WHERE app = %s AND name = %s"
        connection.execute(statement, ["elsewhere", "proxy", last_migration()])
        try:
            with Load(fleet, clients=2) as load:
                load.wait_for(10)
                os.kill(min(before), signal.SIGKILL)
                count = len(load.seen)
                wait_for(lambda: fleet.workers() - before)
                wait_for(lambda: len(load.seen) >= count + 50)
            assert fleet.rows(recorded, last_migration()) == []
        finally:
            connection.execute(statement, ["proxy", "elsewhere", last_migration()])
    # Only requests in the killed worker may fail.
    assert {one.status for one in load.seen} == {200}
    assert len(load.failed) <= 2
