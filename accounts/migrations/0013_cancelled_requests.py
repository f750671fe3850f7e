from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0012_self_service'),
    ]

    operations = [
        migrations.AlterField(
            model_name='administrativechange',
            name='action',
            field=models.CharField(choices=[('created', 'Created'), ('changed', 'Changed'), ('deleted', 'Deleted'), ('exported', 'Exported'), ('erased', 'Erased'), ('cancelled', 'Cancelled')], max_length=16, verbose_name='what'),
        ),
        migrations.AlterField(
            model_name='administrativechange',
            name='subject_id',
            field=models.BigIntegerField(null=True, verbose_name='id of the thing'),
        ),
    ]
