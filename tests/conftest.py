"""What every test has: the database that the suite runs on, and the time that it needs."""

import pytest
from hypothesis import settings

from tests.database import IS_POSTGRES

# Machines have other things to do: no example has a deadline.
settings.register_profile("athena", deadline=None)
settings.load_profile("athena")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """On PostgreSQL the tests' own database begins as a copy of the migrated one."""
    if IS_POSTGRES:
        from django.db import connection

        connection.settings_dict["TEST"]["TEMPLATE"] = connection.settings_dict["NAME"]
