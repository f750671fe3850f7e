"""The table of settings in the documentation is the one in the code."""

from pathlib import Path

from skippy_site.settings_page import settings_table

ROOT = Path(__file__).parents[3]


def test_the_table_of_settings_is_true():
    page = (ROOT / "docs" / "configuration.md").read_text()

    assert settings_table() in page, (
        "run: .venv/bin/python -m skippy_site.settings_page > docs/configuration.md"
    )


def test_every_document_that_the_readme_names_exists():
    readme = (ROOT / "README.md").read_text()
    names = {part.split(")")[0].partition("#")[0] for part in readme.split("](")[1:]}

    assert len(names) > 4
    for name in names:
        assert (ROOT / name).exists(), name
