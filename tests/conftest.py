"""What every test has: the database that the suite runs on, and the time that it needs."""

import gc
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import settings
from pytest_django import DjangoDbBlocker

from tests.database import IS_POSTGRES, fill, shared_by_workers

# Machines have other things to do: no example has a deadline.
settings.register_profile("athena", deadline=None)
settings.load_profile("athena")


def pytest_configure(config: pytest.Config) -> None:
    stack = ExitStack()
    stack.enter_context(shared_by_workers())
    config.add_cleanup(stack.close)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected is never garbage, and to look for some in it takes time in every test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """The tests' own database begins as a copy of a migrated one."""
    from django.db import connection

    if IS_POSTGRES:
        connection.settings_dict["TEST"]["TEMPLATE"] = connection.settings_dict["NAME"]
    else:
        connection.settings_dict["TEST"]["MIGRATE"] = False


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """On SQLite it is made in memory, without its tables' history: that comes with the copy."""
    if not IS_POSTGRES:
        from django.db import connection

        with django_db_blocker.unblock():
            connection.ensure_connection()
            fill(connection.connection)
