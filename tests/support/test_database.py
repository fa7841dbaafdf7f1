"""The database of the tests themselves."""

import pytest
from django.contrib.auth.models import Group

from proxy.roles import ROLES
from tests.support.database import restore_test_database


@pytest.mark.django_db(transaction=True)
def test_rows_of_the_migrations_are_back_after_a_transactional_test():
    Group.objects.all().delete()
    restore_test_database()
    assert {group.name for group in Group.objects.all()} == set(ROLES)
