# Made by makemigrations.

import accounts.names
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='What the key is for. Shown in lists, logs and usage.', max_length=100, validators=[accounts.names.validate_name], verbose_name='name')),
                ('digest', models.CharField(editable=False, max_length=64, verbose_name='SHA-256 of the key')),
                ('visible_prefix', models.CharField(db_index=True, editable=False, max_length=32, verbose_name='prefix')),
                ('last4', models.CharField(editable=False, max_length=4, verbose_name='last four characters')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('expires_at', models.DateTimeField(blank=True, help_text='From then on the key opens nothing. Empty: never.', null=True, verbose_name='expires')),
                ('revoked_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='revoked')),
                ('last_used_at', models.DateTimeField(blank=True, editable=False, help_text='Up to a minute behind.', null=True, verbose_name='last used')),
                ('rotated_from', models.OneToOneField(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='rotated_to', to='accounts.apikey', verbose_name='replaces')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='api_keys', to=settings.AUTH_USER_MODEL, verbose_name='user')),
            ],
            options={
                'verbose_name': 'API key',
                'verbose_name_plural': 'API keys',
                'ordering': ['-created_at', '-id'],
                'indexes': [models.Index(fields=['user', '-created_at'], name='apikey_user_created')],
                'constraints': [models.UniqueConstraint(fields=('digest',), name='apikey_digest_unique'), models.CheckConstraint(condition=models.Q(('digest__regex', '^[0-9a-f]{64}$')), name='apikey_digest_is_sha256'), models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='apikey_name_not_empty'), models.CheckConstraint(condition=models.Q(('expires_at__isnull', True), ('expires_at__gt', models.F('created_at')), _connector='OR'), name='apikey_expires_after_creation')],
            },
        ),
    ]
