"""Which records have decisions of policies: on their page, most records are none of its business."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inference", "0016_team_latencies")]

    operations = [
        migrations.AddIndex(
            "generationrecord",
            models.Index(
                fields=["-created_at", "-id"], name="record_decided", condition=~models.Q(hook_decisions=[])
            ),
        ),
    ]
