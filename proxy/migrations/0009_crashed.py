"""Adds the outcome of exchanges whose process crashed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("proxy", "0008_answer_limits")]

    operations = [
        migrations.AlterField(
            model_name="exchange",
            name="outcome",
            field=models.CharField(
                choices=[
                    ("ok", "ok"),
                    ("client_error", "client error"),
                    ("upstream_error", "upstream error"),
                    ("transform_failed", "translation failed"),
                    ("client_disconnect", "client left"),
                    ("timeout", "time-out"),
                    ("drained", "cut by a restart"),
                    ("gateway_error", "gateway error"),
                    ("crashed", "lost with its process"),
                ],
                max_length=20,
            ),
        ),
    ]
