"""Tells whether a model changed without its migration, on a machine without a database.

    python -m skippy_site.provision.migration_check

`makemigrations --check` first compares the files with what a database has applied, and warns where it
cannot reach one. That is not the question here, so it is given Django's backend that is no database.
"""

from __future__ import annotations

import os
import sys


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skippy_site.settings")
    import django
    from django.conf import settings
    from django.core.management import call_command

    settings.DATABASES = {"default": {"ENGINE": "django.db.backends.dummy"}}
    django.setup()
    try:
        call_command("makemigrations", check=True, dry_run=True, skip_checks=True)
    except SystemExit as ended:
        if ended.code:
            sys.stderr.write(
                "What to do: `.venv/bin/python manage.py makemigrations`, and commit the file.\n"
            )
        return int(ended.code or 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
