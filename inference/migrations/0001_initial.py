import django.db.models.functions.datetime
from django.db import migrations, models

from inference.ledger.partitions import partitions_ensure

# Django cannot make a partitioned table, so this is what CreateModel would make, partitioned by month.
# What belongs to no month that has a partition goes to the default one and is never refused.
CREATE_RECORDS = """
CREATE TABLE inference_generationrecord (
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    request_id varchar(64) NOT NULL,
    user_id bigint NOT NULL,
    username varchar(150) NOT NULL,
    key_id bigint NOT NULL,
    key_name varchar(100) NOT NULL,
    team_id bigint,
    team_name varchar(150) NOT NULL,
    endpoint varchar(64) NOT NULL,
    model varchar(200) NOT NULL,
    is_stream boolean NOT NULL,
    priority varchar(16) NOT NULL,
    session varchar(16) NOT NULL,
    was_session_ignored boolean NOT NULL,
    end_user varchar(512) NOT NULL,
    metadata jsonb NOT NULL,
    max_tokens bigint NOT NULL,
    num_input_tokens bigint NOT NULL,
    num_cached_tokens bigint NOT NULL,
    num_output_tokens bigint NOT NULL,
    num_reasoning_tokens bigint NOT NULL,
    num_injected_tokens bigint NOT NULL,
    queue_s double precision,
    first_token_s double precision,
    time_per_token_s double precision,
    total_s double precision NOT NULL,
    outcome varchar(32) NOT NULL,
    status smallint NOT NULL CHECK (status >= 0),
    finish_reason varchar(32) NOT NULL,
    rejection_reason varchar(64) NOT NULL,
    error_code varchar(64) NOT NULL,
    hook_decisions jsonb NOT NULL,
    PRIMARY KEY (id, created_at),
    CONSTRAINT record_numbers_not_negative CHECK (
        num_input_tokens >= 0 AND num_output_tokens >= 0 AND num_cached_tokens >= 0
        AND num_reasoning_tokens >= 0 AND num_injected_tokens >= 0 AND max_tokens >= 0 AND total_s >= 0
    )
) PARTITION BY RANGE (created_at);
CREATE TABLE inference_generationrecord_default PARTITION OF inference_generationrecord DEFAULT;
CREATE INDEX record_time ON inference_generationrecord (created_at DESC, id DESC);
CREATE INDEX record_key_time ON inference_generationrecord (key_id, created_at DESC, id DESC);
CREATE INDEX record_user_time ON inference_generationrecord (user_id, created_at DESC, id DESC);
CREATE INDEX record_team_time ON inference_generationrecord (team_id, created_at DESC, id DESC);
CREATE INDEX record_request_id ON inference_generationrecord (request_id);
CREATE INDEX record_recorded_at ON inference_generationrecord (recorded_at);
"""


def make_partitions(apps, schema_editor):
    if not schema_editor.collect_sql:
        partitions_ensure(connection=schema_editor.connection)


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(CREATE_RECORDS, 'DROP TABLE inference_generationrecord'),
                migrations.RunPython(make_partitions, migrations.RunPython.noop),
            ],
            state_operations=[
                migrations.CreateModel(
                    name='GenerationRecord',
                    fields=[
                        ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                        ('created_at', models.DateTimeField(verbose_name='arrived')),
                        ('finished_at', models.DateTimeField(verbose_name='ended')),
                        ('recorded_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name='recorded')),
                        ('request_id', models.CharField(max_length=64, verbose_name='request id')),
                        ('user_id', models.BigIntegerField(verbose_name='user id')),
                        ('username', models.CharField(blank=True, max_length=150, verbose_name='user')),
                        ('key_id', models.BigIntegerField(verbose_name='key id')),
                        ('key_name', models.CharField(blank=True, max_length=100, verbose_name='key')),
                        ('team_id', models.BigIntegerField(null=True, verbose_name='team id')),
                        ('team_name', models.CharField(blank=True, max_length=150, verbose_name='team')),
                        ('endpoint', models.CharField(max_length=64, verbose_name='endpoint')),
                        ('model', models.CharField(blank=True, max_length=200, verbose_name='model')),
                        ('is_stream', models.BooleanField(verbose_name='streamed')),
                        ('priority', models.CharField(choices=[('interactive', 'interactive'), ('normal', 'normal'), ('batch', 'batch')], max_length=16, verbose_name='priority')),
                        ('session', models.CharField(blank=True, max_length=16, verbose_name='session')),
                        ('was_session_ignored', models.BooleanField(verbose_name='session ignored')),
                        ('end_user', models.CharField(blank=True, max_length=512, verbose_name="the body's user")),
                        ('metadata', models.JSONField(default=dict, verbose_name='metadata')),
                        ('max_tokens', models.BigIntegerField(verbose_name='tokens asked for')),
                        ('num_input_tokens', models.BigIntegerField(verbose_name='input tokens')),
                        ('num_cached_tokens', models.BigIntegerField(verbose_name='cached input tokens')),
                        ('num_output_tokens', models.BigIntegerField(verbose_name='output tokens')),
                        ('num_reasoning_tokens', models.BigIntegerField(verbose_name='reasoning tokens')),
                        ('num_injected_tokens', models.BigIntegerField(verbose_name='injected tokens')),
                        ('queue_s', models.FloatField(null=True, verbose_name='wait for a lane')),
                        ('first_token_s', models.FloatField(null=True, verbose_name='time to first token')),
                        ('time_per_token_s', models.FloatField(null=True, verbose_name='time per output token')),
                        ('total_s', models.FloatField(verbose_name='total time')),
                        ('outcome', models.CharField(choices=[('completed', 'completed'), ('cancelled', 'cancelled'), ('client_disconnect', 'client_disconnect'), ('rejected', 'rejected'), ('timed_out', 'timed_out'), ('backend_error', 'backend_error'), ('interrupted', 'interrupted')], max_length=32, verbose_name='outcome')),
                        ('status', models.PositiveSmallIntegerField(verbose_name='status')),
                        ('finish_reason', models.CharField(blank=True, max_length=32, verbose_name='finish reason')),
                        ('rejection_reason', models.CharField(blank=True, max_length=64, verbose_name='reason of refusal')),
                        ('error_code', models.CharField(blank=True, max_length=64, verbose_name='error code')),
                        ('hook_decisions', models.JSONField(default=list, verbose_name='hook decisions')),
                    ],
                    options={
                        'verbose_name': 'generation record',
                        'indexes': [models.Index(fields=['-created_at', '-id'], name='record_time'), models.Index(fields=['key_id', '-created_at', '-id'], name='record_key_time'), models.Index(fields=['user_id', '-created_at', '-id'], name='record_user_time'), models.Index(fields=['team_id', '-created_at', '-id'], name='record_team_time'), models.Index(fields=['request_id'], name='record_request_id'), models.Index(fields=['recorded_at'], name='record_recorded_at')],
                        'constraints': [models.CheckConstraint(condition=models.Q(('max_tokens__gte', 0), ('num_cached_tokens__gte', 0), ('num_injected_tokens__gte', 0), ('num_input_tokens__gte', 0), ('num_output_tokens__gte', 0), ('num_reasoning_tokens__gte', 0), ('total_s__gte', 0)), name='record_numbers_not_negative')],
                    },
                ),
            ],
        ),
        migrations.CreateModel(
            name='GenerationText',
            fields=[
                ('record_id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(verbose_name='arrived')),
                ('expires_at', models.DateTimeField(verbose_name='deleted after')),
                ('user_id', models.BigIntegerField(verbose_name='user id')),
                ('key_id', models.BigIntegerField(verbose_name='key id')),
                ('request', models.TextField(verbose_name='request body')),
                ('answer', models.TextField(verbose_name='answer')),
            ],
            options={
                'verbose_name': 'text of a generation',
                'indexes': [models.Index(fields=['expires_at'], name='text_expires_at'), models.Index(fields=['user_id'], name='text_user')],
            },
        ),
        migrations.CreateModel(
            name='IdempotentRequest',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('key_id', models.BigIntegerField(verbose_name='key id')),
                ('name_digest', models.BinaryField(max_length=32, verbose_name='digest of the name')),
                ('body_digest', models.BinaryField(max_length=32, verbose_name='digest of the body')),
                ('request_id', models.CharField(max_length=64, verbose_name='request id')),
                ('record_id', models.UUIDField(verbose_name='record id')),
                ('created_at', models.DateTimeField(verbose_name='arrived')),
                ('expires_at', models.DateTimeField(verbose_name='forgotten after')),
                ('runs_until', models.DateTimeField(verbose_name='taken for dead after')),
                ('finished_at', models.DateTimeField(null=True, verbose_name='ended')),
                ('status', models.PositiveSmallIntegerField(null=True, verbose_name='status')),
                ('content_type', models.CharField(blank=True, max_length=100, verbose_name='content type')),
                ('answer', models.BinaryField(null=True, verbose_name='answer')),
            ],
            options={
                'verbose_name': 'idempotent request',
                'indexes': [models.Index(fields=['expires_at'], name='idempotent_expires_at')],
                'constraints': [models.UniqueConstraint(fields=('key_id', 'name_digest'), name='idempotent_name_unique')],
            },
        ),
    ]
