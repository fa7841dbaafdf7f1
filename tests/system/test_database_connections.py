"""The number of database connections of a process, and requests while none is free."""

from contextlib import ExitStack, suppress
from functools import partial

import psycopg
import pytest

from tests.support.chat import ask, says
from tests.support.gateway import Gateway
from tests.support.postgres_server import PostgresMissing, PostgresServer
from tests.support.waiting import wait_for

MAX_CONNECTIONS = 4
"""Connections of one process: configuration, audit, heartbeat, and at times retention."""
OPEN = "SELECT count(*) FROM pg_stat_activity WHERE datname LIKE '%\\_%' AND backend_type = 'client backend'"
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE '%\\_%'"


@pytest.fixture
def small_server():
    """Server with few connections: those of a process, of this test, and some that are closing."""
    try:
        server = PostgresServer(
            max_connections=MAX_CONNECTIONS + 4, superuser_reserved_connections=0, max_wal_senders=0
        )
    except PostgresMissing as error:
        pytest.skip(str(error))
    with server:
        yield server


def test_requests_are_answered_without_free_connections_and_rows_are_written_later(
    small_server, upstream, tmp_path
):
    gateway = Gateway(
        tmp_path,
        OPENROUTER_API_KEY="x" * 20,
        OPENROUTER_BASE_URL=upstream.url,
        DATABASE_URL=small_server.create_database(),
    ).start()
    upstream.script("test/squeezed", says("Hi"))
    answers = []
    try:
        with gateway.client() as client, ExitStack() as taken:

            def asked():
                answers.append(client.post("/v1/messages", json=ask("test/squeezed")))
                return answers[-1].status_code

            for _ in range(20):
                assert asked() == 200
                assert small_server.query(OPEN)[0][0] <= MAX_CONNECTIONS

            connect = partial(psycopg.connect, small_server.url, autocommit=True)
            mine = taken.enter_context(connect())

            def take():
                """Replace the gateway's connections by ours; return whether a new one failed."""
                assert asked() == 200
                mine.execute(CUT)
                with suppress(psycopg.OperationalError):  # no connection is left
                    while True:
                        taken.enter_context(connect())
                return gateway.log.count("too many clients") > refused

            refused = gateway.log.count("too many clients")
            wait_for(take)
            assert asked() == 200
        ids = sorted(answer.headers["request-id"] for answer in answers)
        query = "SELECT request_id FROM proxy_exchange ORDER BY request_id"
        wait_for(lambda: len(gateway.rows(query)) >= len(ids))
        assert [row["request_id"] for row in gateway.rows(query)] == ids
    finally:
        gateway.stop()
