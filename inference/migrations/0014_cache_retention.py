from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inference", "0013_model_rows")]

    operations = [
        migrations.AddField(
            model_name="generationrecord",
            name="cache_retention",
            field=models.CharField(max_length=16, null=True, verbose_name="prompt cache retention"),
        ),
    ]
