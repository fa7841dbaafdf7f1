"""Adds the setting for models of unknown format, and the family that `auto` read."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('proxy', '0020_split_thinking'),
    ]

    operations = [
        migrations.AddField(
            model_name='exchange',
            name='family_read',
            field=models.CharField(max_length=20, null=True),
        ),
        migrations.AddField(
            model_name='gatewaysettings',
            name='unknown_format',
            field=models.CharField(choices=[('auto', 'auto: calls of declared tools, in the markup of any family'), ('standard', 'standard: structured calls only')], db_default='auto', default='auto', help_text='How to read models whose name says nothing about their format, and for which there is no override. Names of Claude, GPT, Gemini and Grok are always read as standard.', max_length=20, verbose_name='models of unknown format'),
        ),
        migrations.AddField(
            model_name='historicalgatewaysettings',
            name='unknown_format',
            field=models.CharField(choices=[('auto', 'auto: calls of declared tools, in the markup of any family'), ('standard', 'standard: structured calls only')], db_default='auto', default='auto', help_text='How to read models whose name says nothing about their format, and for which there is no override. Names of Claude, GPT, Gemini and Grok are always read as standard.', max_length=20, verbose_name='models of unknown format'),
        ),
        migrations.AddIndex(
            model_name='exchange',
            index=models.Index(condition=models.Q(('family_read__isnull', False)), fields=['family_read', '-id'], name='exchange_family_read'),
        ),
    ]
