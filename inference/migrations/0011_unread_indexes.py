"""Indexes that cost every record something, and that nobody reads by."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("inference", "0010_rollups")]

    operations = [
        migrations.RemoveIndex("generationrecord", "record_recorded_at"),
        migrations.RemoveIndex("usagepending", "pending_key"),
        migrations.RemoveIndex("usagepending", "pending_user"),
        migrations.RemoveIndex("usagepending", "pending_time"),
    ]
