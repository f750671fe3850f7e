"""Decisions about one key's, user's or team's requests: without these, those of who has many requests and few
decisions are looked for among all of either."""

from django.db import migrations, models

_DECIDED = ~models.Q(hook_decisions=[])


class Migration(migrations.Migration):
    dependencies = [("inference", "0019_spans_and_months")]

    operations = [
        migrations.AddIndex(
            "generationrecord",
            models.Index(
                fields=[f"{owner}_id", "-created_at", "-id"], name=f"record_{owner}_decided", condition=_DECIDED
            ),
        )
        for owner in ("key", "user", "team")
    ]
