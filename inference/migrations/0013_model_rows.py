import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.lookups
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0012_self_service'),
        ('inference', '0012_stored_responses'),
    ]

    operations = [
        migrations.CreateModel(
            name='ModelRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('model_id', models.CharField(help_text='What clients send as `model`.', max_length=200, unique=True, verbose_name='id')),
                ('aliases', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), blank=True, default=list, help_text='Other names for it, with commas.', size=32, verbose_name='aliases')),
                ('source', models.CharField(help_text="A GGUF file's path on the server, or hf:org/repo/file.gguf.", max_length=4096, verbose_name='source')),
                ('projector_source', models.CharField(blank=True, default='', help_text='The same for the file that lets it read pictures or sounds. Empty: none.', max_length=4096, verbose_name='projector')),
                ('is_enabled', models.BooleanField(default=True, help_text='A model that is not enabled is not served.', verbose_name='enabled')),
                ('is_default', models.BooleanField(default=False, help_text='For requests that need not name a model. One model at most is.', verbose_name='default')),
                ('load_policy', models.CharField(choices=[('always', 'always'), ('on_demand', 'on demand'), ('by_hand', 'by hand')], default='always', max_length=16, verbose_name='loaded')),
                ('wants_loaded', models.BooleanField(blank=True, default=None, editable=False, null=True, verbose_name='last word about loading')),
                ('idle_unload_s', models.FloatField(default=0.0, help_text='Where it is loaded on demand. 0: never.', verbose_name='unloaded after idle seconds')),
                ('engine', models.JSONField(blank=True, default=dict, help_text="What differs from the service's own, by its names in lower case without SKIPPY_.", verbose_name='engine settings')),
                ('chat_defaults', models.JSONField(blank=True, default=dict, help_text='What requests leave out, as in their bodies.', verbose_name='defaults of chats')),
                ('completion_defaults', models.JSONField(blank=True, default=dict, verbose_name='defaults of completions')),
                ('has_embeddings', models.BooleanField(default=False, help_text='Whether it answers /v1/embeddings.', verbose_name='embeddings')),
                ('speculation_mode', models.CharField(choices=[('off', 'off'), ('prompt_lookup', 'prompt lookup'), ('draft_model', 'draft model')], default='off', max_length=16, verbose_name='speculation')),
                ('max_draft_tokens', models.PositiveSmallIntegerField(default=8, verbose_name='tokens of a draft, at most')),
                ('allows_speculation_requests', models.BooleanField(default=True, verbose_name='requests may choose how they are drafted')),
                ('draft_source', models.CharField(blank=True, default='', help_text='A smaller model of the same vocabulary: a path or hf:… Empty: none.', max_length=4096, verbose_name='draft model')),
                ('is_open', models.BooleanField(default=True, help_text='Otherwise to the teams and keys named here alone.', verbose_name='open to everybody')),
                ('revision', models.BigIntegerField(default=1, editable=False, verbose_name='revision')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='added')),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='changed')),
                ('keys', models.ManyToManyField(blank=True, related_name='+', to='accounts.apikey', verbose_name='keys')),
                ('teams', models.ManyToManyField(blank=True, related_name='+', to='accounts.team', verbose_name='teams')),
            ],
            options={
                'verbose_name': 'model',
                'ordering': ['pk'],
            },
        ),
        migrations.CreateModel(
            name='ModelReport',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('process_id', models.UUIDField(verbose_name='process id')),
                ('process_name', models.CharField(max_length=300, verbose_name='process')),
                ('state', models.CharField(choices=[('unloaded', 'unloaded'), ('loading', 'loading'), ('ready', 'ready'), ('draining', 'draining'), ('failed', 'failed')], max_length=16, verbose_name='state')),
                ('revision', models.BigIntegerField(verbose_name='revision')),
                ('cause', models.TextField(blank=True, verbose_name='cause')),
                ('num_running', models.IntegerField(verbose_name='running')),
                ('memory_bytes', models.BigIntegerField(verbose_name='memory')),
                ('seen_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name='said')),
                ('row', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='reports', to='inference.modelrow', verbose_name='model')),
            ],
            options={
                'verbose_name': 'status of a model',
                'verbose_name_plural': 'status of models',
            },
        ),
        migrations.CreateModel(
            name='ModelName',
            fields=[
                ('name', models.CharField(max_length=200, primary_key=True, serialize=False, verbose_name='name')),
                ('row', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='names', to='inference.modelrow')),
            ],
            options={
                'verbose_name': 'name of a model',
                'verbose_name_plural': 'names of models',
            },
        ),
        migrations.CreateModel(
            name='ModelAdapter',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, verbose_name='name')),
                ('source', models.CharField(help_text="A GGUF file's path on the server, or hf:…", max_length=4096, verbose_name='source')),
                ('scale', models.FloatField(default=1.0, verbose_name='scale')),
                ('is_default', models.BooleanField(default=False, help_text='Where a request names no adapter.', verbose_name='applies by default')),
                ('row', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='adapters', to='inference.modelrow', verbose_name='model')),
            ],
            options={
                'verbose_name': 'adapter',
                'ordering': ['pk'],
            },
        ),
        migrations.AddConstraint(
            model_name='modelrow',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('model_id', ''), _negated=True), models.Q(('model_id__regex', '@main(:|$)'), _negated=True)), name='model_id_canonical'),
        ),
        migrations.AddConstraint(
            model_name='modelrow',
            constraint=models.CheckConstraint(condition=models.Q(('source', ''), _negated=True), name='model_source_not_empty'),
        ),
        migrations.AddConstraint(
            model_name='modelrow',
            constraint=models.UniqueConstraint(condition=models.Q(('is_default', True)), fields=('is_default',), name='model_default_once'),
        ),
        migrations.AddConstraint(
            model_name='modelrow',
            constraint=models.CheckConstraint(condition=models.Q(('load_policy__in', ['always', 'on_demand', 'by_hand'])), name='model_load_policy_known'),
        ),
        migrations.AddConstraint(
            model_name='modelrow',
            constraint=models.CheckConstraint(condition=models.Q(('idle_unload_s__gte', 0), ('idle_unload_s__lte', 2592000.0)), name='model_idle_unload_range'),
        ),
        migrations.AddConstraint(
            model_name='modelrow',
            constraint=models.CheckConstraint(condition=models.Q(('speculation_mode__in', ['off', 'prompt_lookup', 'draft_model'])), name='model_speculation_known'),
        ),
        migrations.AddConstraint(
            model_name='modelrow',
            constraint=models.CheckConstraint(condition=models.Q(('max_draft_tokens__gte', 1), ('max_draft_tokens__lte', 64)), name='model_draft_tokens_range'),
        ),
        migrations.AddConstraint(
            model_name='modelrow',
            constraint=models.CheckConstraint(condition=models.Q(('revision__gte', 1)), name='model_revision_positive'),
        ),
        migrations.AddConstraint(
            model_name='modelrow',
            constraint=models.CheckConstraint(condition=django.db.models.lookups.Exact(models.Func(models.F('engine'), function='jsonb_typeof', output_field=models.CharField()), models.Value('object')), name='model_engine_object'),
        ),
        migrations.AddConstraint(
            model_name='modelrow',
            constraint=models.CheckConstraint(condition=django.db.models.lookups.Exact(models.Func(models.F('chat_defaults'), function='jsonb_typeof', output_field=models.CharField()), models.Value('object')), name='model_chat_defaults_object'),
        ),
        migrations.AddConstraint(
            model_name='modelrow',
            constraint=models.CheckConstraint(condition=django.db.models.lookups.Exact(models.Func(models.F('completion_defaults'), function='jsonb_typeof', output_field=models.CharField()), models.Value('object')), name='model_completion_defaults_object'),
        ),
        migrations.AddConstraint(
            model_name='modelreport',
            constraint=models.UniqueConstraint(fields=('process_id', 'row'), name='model_report_once'),
        ),
        migrations.AddConstraint(
            model_name='modelreport',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['unloaded', 'loading', 'ready', 'draining', 'failed'])), name='model_report_state_known'),
        ),
        migrations.AddConstraint(
            model_name='modelname',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('name', ''), _negated=True), models.Q(('name__regex', '@main(:|$)'), _negated=True)), name='model_name_canonical'),
        ),
        migrations.AddConstraint(
            model_name='modeladapter',
            constraint=models.UniqueConstraint(fields=('row', 'name'), name='adapter_name_unique'),
        ),
        migrations.AddConstraint(
            model_name='modeladapter',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('name', ''), _negated=True), models.Q(('source', ''), _negated=True)), name='adapter_not_empty'),
        ),
        migrations.AddConstraint(
            model_name='modeladapter',
            constraint=models.CheckConstraint(condition=models.Q(('scale__gte', -1000.0), ('scale__lte', 1000.0)), name='adapter_scale_range'),
        ),
    ]
