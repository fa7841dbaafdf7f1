"""The roles of staff are groups with permissions."""

import pytest
from django.contrib.auth.models import Group

from proxy.roles import ROLES


@pytest.mark.django_db
def test_every_role_is_a_group_with_its_permissions():
    for name, codenames in ROLES.items():
        group = Group.objects.get(name=name)
        assert set(group.permissions.values_list("codename", flat=True)) == set(codenames)
    support = set(ROLES["support"])
    assert not {c for c in support if c.endswith(("upstream", "clientkey", "modelroute"))}
    assert "view_transcript" not in ROLES["operators"]
    assert sorted(ROLES) == ["developers", "operators", "support"]
