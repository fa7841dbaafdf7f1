"""Removes the default limit of 32 concurrent requests per key: a team may share a key.

A gateway that never had another value has the old default, and gets none. Any other value was an
operator's choice, and so is 32 after another value.
"""

import django.core.validators
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import F
from django.utils import timezone

OLD_DEFAULT = 32

FIELD = models.PositiveIntegerField(blank=True, help_text="For every key without a limit of its own. Empty: unlimited; the node's limit applies in any case.", null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(100000)], verbose_name='concurrent requests per key')


def remove_default(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    history = apps.get_model("proxy", "HistoricalGatewaySettings").objects
    row = apps.get_model("proxy", "GatewaySettings").objects.filter(key_max_streams=OLD_DEFAULT)
    if not row.exists() or history.exclude(key_max_streams=OLD_DEFAULT).exists():
        return
    versions = apps.get_model("proxy", "ConfigurationVersion").objects
    versions.update(number=F("number") + 1)  # running processes read the configuration again
    row.update(key_max_streams=None)
    newest = history.order_by("-history_id").first()
    if newest is not None:
        newest.pk = None
        newest.version = versions.get().number
        newest.key_max_streams = None
        newest.history_type = "~"
        newest.history_date = timezone.now()
        newest.history_user_id = None
        newest.history_change_reason = "upgrade: no default limit of concurrent requests per key"
        newest.save(force_insert=True)


class Migration(migrations.Migration):

    dependencies = [
        ('proxy', '0016_plain_audit_texts'),
    ]

    operations = [
        migrations.AlterField(model_name='gatewaysettings', name='key_max_streams', field=FIELD),
        migrations.AlterField(model_name='historicalgatewaysettings', name='key_max_streams', field=FIELD),
        migrations.RunPython(remove_default, migrations.RunPython.noop),
    ]
