import django.contrib.postgres.fields
from django.db import migrations, models

# A histogram from the bucket numbers of its latencies, null for what has none. Most groups are small, and a
# loop over a few numbers costs a tenth of a join with generate_series.
COUNT_LATENCIES = """
CREATE FUNCTION inference_latency_counts(buckets int[], num_buckets int) RETURNS int[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    counts int[] := array_fill(0, ARRAY[num_buckets]);
    bucket int;
BEGIN
    FOREACH bucket IN ARRAY buckets LOOP
        IF bucket IS NOT NULL THEN
            counts[bucket + 1] := counts[bucket + 1] + 1;
        END IF;
    END LOOP;
    RETURN counts;
END $$;
"""
FORGET_LATENCIES = "DROP FUNCTION inference_latency_counts(int[], int);"

# Whoever writes a record writes with it, unknowingly and in the same transaction, that it has not been
# counted. A statement's trigger: one row costs what a row costs, and a thousand are one INSERT.
NOTE_PENDING = """
CREATE FUNCTION inference_usage_note_pending() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO inference_usagepending (record_id, created_at, key_id, user_id)
    SELECT id, created_at, key_id, user_id FROM arrived;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_note_pending AFTER INSERT ON inference_generationrecord
    REFERENCING NEW TABLE AS arrived FOR EACH STATEMENT EXECUTE FUNCTION inference_usage_note_pending();
INSERT INTO inference_usagepending (record_id, created_at, key_id, user_id)
    SELECT id, created_at, key_id, user_id FROM inference_generationrecord;
"""
FORGET_PENDING = """
DROP TRIGGER usage_note_pending ON inference_generationrecord;
DROP FUNCTION inference_usage_note_pending();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('inference', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=32, verbose_name='kind')),
                ('subject', models.CharField(blank=True, max_length=200, verbose_name='subject')),
                ('message', models.TextField(verbose_name='message')),
                ('opened_at', models.DateTimeField(verbose_name='began')),
                ('closed_at', models.DateTimeField(null=True, verbose_name='ended')),
                ('notified_at', models.DateTimeField(null=True, verbose_name='told')),
                ('num_attempts', models.IntegerField(default=0, verbose_name='attempts to tell')),
            ],
            options={
                'verbose_name': 'alert',
                'indexes': [models.Index(fields=['-opened_at'], name='alert_time')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('closed_at', None)), fields=('kind', 'subject'), name='alert_open_once')],
            },
        ),
        migrations.CreateModel(
            name='EventBucket',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('hour', models.DateTimeField(verbose_name='hour')),
                ('name', models.CharField(max_length=100, verbose_name='event')),
                ('detail', models.CharField(blank=True, max_length=100, verbose_name='detail')),
                ('num_events', models.BigIntegerField(verbose_name='events')),
                ('elapsed_counts', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), help_text='counts by bucket of inference.domain.latency_histogram', size=None)),
            ],
            options={
                'verbose_name': 'events of an hour',
                'verbose_name_plural': 'events by hour',
                'constraints': [models.UniqueConstraint(fields=('hour', 'name', 'detail'), name='event_bucket_unique')],
            },
        ),
        migrations.CreateModel(
            name='StoredEvent',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField(verbose_name='ended')),
                ('name', models.CharField(max_length=100, verbose_name='event')),
                ('request_id', models.CharField(blank=True, max_length=64, verbose_name='request id')),
                ('elapsed_s', models.FloatField(verbose_name='length')),
                ('attributes', models.JSONField(default=dict, verbose_name='attributes')),
                ('is_aggregated', models.BooleanField(default=False, verbose_name='aggregated')),
            ],
            options={
                'verbose_name': 'event of telemetry',
                'verbose_name_plural': 'events of telemetry',
                'indexes': [models.Index(fields=['-at', '-id'], name='event_time'), models.Index(fields=['request_id'], name='event_request'), models.Index(condition=models.Q(('is_aggregated', False)), fields=['id'], name='event_pending')],
            },
        ),
        migrations.CreateModel(
            name='UsageBucket',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('hour', models.DateTimeField(verbose_name='hour')),
                ('key_id', models.BigIntegerField(verbose_name='key id')),
                ('user_id', models.BigIntegerField(verbose_name='user id')),
                ('team_id', models.BigIntegerField(null=True, verbose_name='team id')),
                ('model', models.CharField(blank=True, max_length=200, verbose_name='model')),
                ('endpoint', models.CharField(max_length=64, verbose_name='endpoint')),
                ('outcome', models.CharField(choices=[('completed', 'completed'), ('cancelled', 'cancelled'), ('client_disconnect', 'client_disconnect'), ('rejected', 'rejected'), ('timed_out', 'timed_out'), ('backend_error', 'backend_error'), ('interrupted', 'interrupted')], max_length=32, verbose_name='outcome')),
                ('num_requests', models.BigIntegerField(verbose_name='requests')),
                ('num_input_tokens', models.BigIntegerField(verbose_name='input tokens')),
                ('num_cached_tokens', models.BigIntegerField(verbose_name='cached input tokens')),
                ('num_output_tokens', models.BigIntegerField(verbose_name='output tokens')),
                ('num_reasoning_tokens', models.BigIntegerField(verbose_name='reasoning tokens')),
                ('num_injected_tokens', models.BigIntegerField(verbose_name='injected tokens')),
                ('queue_counts', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), help_text='counts by bucket of inference.domain.latency_histogram', size=None)),
                ('first_token_counts', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), help_text='counts by bucket of inference.domain.latency_histogram', size=None)),
                ('per_token_counts', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), help_text='counts by bucket of inference.domain.latency_histogram', size=None)),
                ('total_counts', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), help_text='counts by bucket of inference.domain.latency_histogram', size=None)),
            ],
            options={
                'verbose_name': 'usage of an hour',
                'verbose_name_plural': 'usage by hour',
                'indexes': [models.Index(fields=['hour'], name='usage_hour'), models.Index(fields=['user_id', 'hour'], name='usage_user_hour'), models.Index(fields=['team_id', 'hour'], name='usage_team_hour')],
                'constraints': [models.UniqueConstraint(fields=('key_id', 'hour', 'user_id', 'team_id', 'model', 'endpoint', 'outcome'), name='usage_bucket_unique', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='UsagePending',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('record_id', models.UUIDField(verbose_name='record id')),
                ('created_at', models.DateTimeField(verbose_name='arrived')),
                ('key_id', models.BigIntegerField(verbose_name='key id')),
                ('user_id', models.BigIntegerField(verbose_name='user id')),
            ],
            options={
                'verbose_name': 'record to be aggregated',
                'verbose_name_plural': 'records to be aggregated',
                'indexes': [models.Index(fields=['key_id'], name='pending_key'), models.Index(fields=['user_id'], name='pending_user'), models.Index(fields=['created_at'], name='pending_time')],
            },
        ),
        migrations.RunSQL(COUNT_LATENCIES, FORGET_LATENCIES),
        migrations.RunSQL(NOTE_PENDING, FORGET_PENDING),
    ]
