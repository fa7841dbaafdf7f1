"""Prepares the database of the suite, and orders and selects its tests."""

import gc
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path

import pytest
from hypothesis import settings
from pytest_django import DjangoDbBlocker

from tests.support.database import IS_POSTGRES, restore_test_database, shared_by_workers
from tests.support.postgres_selection import allow_gateways, runs_on_postgres

pytest_plugins = ["tests.support.fixtures"]

# Machines may be busy: no example has a deadline.
settings.register_profile("athena", deadline=None)
settings.load_profile("athena")

# Modules whose tests take longest.
_LONG = [
    Path(__file__).parent / name
    for name in (
        "system/test_soak.py",
        "system/test_drain.py",
        "system/test_two_nodes.py",
        "system/test_database_outage.py",
        "proxy/security/test_access.py",
        "proxy/security/test_no_secret_leaks.py",
        "proxy/audit/test_journal_recovery.py",
        "bench/test_work.py",
    )
]


def pytest_configure(config: pytest.Config) -> None:
    stack = ExitStack()
    stack.enter_context(shared_by_workers())
    config.add_cleanup(stack.close)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector away from the collected tests, which never become garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let each worker begin with some of the long modules, so that none is left for the end.

    The workers get equal parts, and later steal from the ends of each other's.
    """
    if IS_POSTGRES:
        config.hook.pytest_deselected(items=[one for one in items if not runs_on_postgres(one)])
        items[:] = [one for one in items if runs_on_postgres(one)]
    count = getattr(config, "workerinput", {"workercount": 1})["workercount"]
    modules: dict[Path, list[pytest.Item]] = {path: [] for path in _LONG}
    others: list[pytest.Item] = []
    for item in items:
        modules.get(item.path, others).append(item)
    parts: list[list[pytest.Item]] = [[] for _ in range(count)]
    for module in modules.values():
        min(parts, key=len).extend(module)
    rest = iter(others)
    for number, tests in enumerate(parts):
        size = len(items) * (number + 1) // count - len(items) * number // count
        tests.extend(islice(rest, max(0, size - len(tests))))
    items[:] = [*chain(*parts), *rest]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    allow_gateways(item)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Make the database of the tests as a copy of a migrated one."""
    from django.db import connection

    if IS_POSTGRES:
        connection.settings_dict["TEST"]["TEMPLATE"] = connection.settings_dict["NAME"]
    else:
        connection.settings_dict["TEST"]["MIGRATE"] = False


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """Fill the database, which SQLite makes in memory and without migrations."""
    if not IS_POSTGRES:
        from django.db import connection

        with django_db_blocker.unblock():
            connection.ensure_connection()
            restore_test_database()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Restore the database after a transactional test, unless another one follows."""
    try:
        return (yield)
    finally:
        if _is_transactional(item) and nextitem and not _is_transactional(nextitem):
            restore_test_database()


def _is_transactional(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("django_db")
    return marker is not None and bool(marker.kwargs.get("transaction"))
