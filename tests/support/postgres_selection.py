"""Selects the tests that `make test-postgres` repeats on PostgreSQL: those that use the database.

A test uses the database if pytest-django gives it one or if it starts a gateway. pytest-django
rejects every other access, and `database_url` denies a gateway to a test that is not recognised
here, so no new test of the database is left out unnoticed. `INDEPENDENT` lists tests that need a
database, but whose subject is something else.
"""

from pathlib import Path

import pytest

from tests.support import database

_TESTS = Path(__file__).parent.parent
# `either` asks for its gateway by name, so that it is not among the fixtures of its tests.
_FIXTURES = {"db", "transactional_db", "gateway", "demo_gateway", "scripted_gateway", "either"}

INDEPENDENT = {
    "proxy/http": "framing, sizes and time limits of requests and answers",
    "proxy/upstreams": "connections to upstreams, and how they fail",
    "proxy/security/test_access.py": "which role may use which URL",
    "proxy/serving/test_chat_completions.py": "translation for OpenAI clients",
    "proxy/serving/test_client_requirements.py": "what the clients expect of answers",
    "proxy/serving/test_cursor.py": "translation for Cursor",
    "proxy/serving/test_errors.py": "errors of upstreams, as clients see them",
    "proxy/serving/test_matrix.py": "translation between all dialects and formats",
    "proxy/serving/test_messages.py": "translation for Anthropic clients",
    "proxy/serving/test_passthrough.py": "answers that are passed on unchanged",
    "proxy/serving/test_sdk.py": "the official client libraries",
    "proxy/serving/test_streaming.py": "time and order of streamed answers",
}


def uses_database(item: pytest.Item) -> bool:
    fixtures: list[str] = getattr(item, "fixturenames", [])
    return (
        item.get_closest_marker("django_db") is not None
        or not _FIXTURES.isdisjoint(fixtures)
        or _imports_gateway(item)
        or item.path.is_relative_to(_TESTS / "system")
    )


def runs_on_postgres(item: pytest.Item) -> bool:
    return uses_database(item) and not any(
        item.path.is_relative_to(_TESTS / path) for path in INDEPENDENT
    )


def _imports_gateway(item: pytest.Item) -> bool:
    from tests.support.gateway import Gateway

    return isinstance(item, pytest.Function) and Gateway in vars(item.module).values()


def allow_gateways(item: pytest.Item) -> None:
    """Call before each test: its gateways get a database if it is known to use one."""
    database.refused_test = "" if uses_database(item) else item.nodeid
