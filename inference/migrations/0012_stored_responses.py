from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inference", "0011_unread_indexes")]

    operations = [
        migrations.AddField(
            model_name="generationtext",
            name="response_id",
            field=models.CharField(max_length=64, null=True, verbose_name="response id"),
        ),
        migrations.AddField(
            model_name="generationtext",
            name="previous_response_id",
            field=models.CharField(
                blank=True, default="", max_length=64, verbose_name="previous response id"
            ),
        ),
        migrations.AddConstraint(
            model_name="generationtext",
            constraint=models.UniqueConstraint(fields=("response_id",), name="text_response_id_unique"),
        ),
    ]
