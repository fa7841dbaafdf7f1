"""Adds a first history record for every row that is older than the history."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.utils import timezone

from proxy.security.secret_headers import mask_secrets

TABLES = (
    "Upstream",
    "ModelRoute",
    "FormatOverride",
    "FormatSettings",
    "ClientKey",
    "GatewaySettings",
)


def record(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    version = apps.get_model("proxy", "ConfigurationVersion").objects.first()
    for table in TABLES:
        records = apps.get_model("proxy", f"Historical{table}")
        kept = {field.attname for field in records._meta.fields}
        records.objects.bulk_create(
            records(
                version=version.number if version else 0,
                history_type="+",
                history_date=timezone.now(),
                **{
                    name: mask_secrets(getattr(row, name)) if name == "headers" else getattr(row, name)
                    for name in (field.attname for field in row._meta.fields)
                    if name in kept
                },
            )
            for row in apps.get_model("proxy", table).objects.all()
        )


class Migration(migrations.Migration):
    dependencies = [("proxy", "0003_history")]
    operations = [migrations.RunPython(record, migrations.RunPython.noop)]
