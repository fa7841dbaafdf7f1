"""Lets operators edit formats, and support look at them."""

from django.apps.registry import Apps
from django.contrib.auth.management import create_permissions
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

import proxy.models
from proxy.roles import ROLES


def grant(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    # Django makes permissions after the last migration; the groups need them now.
    config = apps.get_app_config("proxy")
    config.models_module = proxy.models
    create_permissions(config, apps=apps, verbosity=0)
    config.models_module = None
    permissions = apps.get_model("auth", "Permission").objects.filter(
        content_type__app_label="proxy", content_type__model="formatdefinition"
    )
    for name, codenames in ROLES.items():
        # A group that an administrator has deleted or renamed stays as it is.
        for group in apps.get_model("auth", "Group").objects.filter(name=name):
            group.permissions.add(*permissions.filter(codename__in=codenames))


class Migration(migrations.Migration):
    dependencies = [("proxy", "0022_format_definitions")]
    operations = [migrations.RunPython(grant, migrations.RunPython.noop)]
