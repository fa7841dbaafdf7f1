"""Replaces indexes of exchanges that others cover, or whose column is nearly always null."""

import django.db.models.deletion
from django.db import migrations, models


def without(column: str, index: str) -> migrations.RunSQL:
    """Drop only the index: altering the field would make SQLite copy the whole table."""
    return migrations.RunSQL(
        f"DROP INDEX IF EXISTS {index}",
        f"CREATE INDEX {index} ON proxy_exchange ({column})",
    )


class Migration(migrations.Migration):

    dependencies = [
        ('proxy', '0013_standing_parts'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='exchange',
            index=models.Index(condition=models.Q(('group__isnull', False)), fields=['group', '-id'], name='exchange_group'),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                without('group_id', 'proxy_exchange_group_id_e8069d10'),
                without('key_id', 'proxy_exchange_key_id_178b4f20'),
            ],
            state_operations=[
                migrations.AlterField(
                    model_name='exchange',
                    name='group',
                    field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='exchanges', to='proxy.failuregroup'),
                ),
                migrations.AlterField(
                    model_name='exchange',
                    name='key',
                    field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='exchanges', to='proxy.clientkey'),
                ),
            ],
        ),
        migrations.RemoveIndex(
            model_name='exchange',
            name='proxy_excha_group_i_39adf9_idx',
        ),
    ]
