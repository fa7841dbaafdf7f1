"""Creates the groups of `proxy.roles` with their permissions."""

from django.apps.registry import Apps
from django.contrib.auth.management import create_permissions
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

import proxy.models
from proxy.roles import ROLES


def make_groups(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    # Django makes permissions after the last migration; the groups need them now.
    config = apps.get_app_config("proxy")
    config.models_module = proxy.models
    create_permissions(config, apps=apps, verbosity=0)
    config.models_module = None
    permissions = apps.get_model("auth", "Permission").objects.filter(
        content_type__app_label="proxy"
    )
    for name, listed in ROLES.items():
        # 0023 adds the permissions of a table that does not exist yet.
        codenames = [codename for codename in listed if not codename.endswith("_formatdefinition")]
        group, _ = apps.get_model("auth", "Group").objects.get_or_create(name=name)
        found = permissions.filter(codename__in=codenames)
        assert found.count() == len(codenames), f"permissions of {name} are missing"
        group.permissions.set(found)


def remove_groups(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    apps.get_model("auth", "Group").objects.filter(name__in=ROLES).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("proxy", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]
    operations = [migrations.RunPython(make_groups, remove_groups)]
