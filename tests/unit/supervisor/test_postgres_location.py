from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from skippy_site.state import StateFolder
from skippy_site.supervisor.postgres_location import current_location, location_file, outside_base


def test_the_cluster_lives_in_the_state_folder(tmp_path: Path) -> None:
    location = current_location(StateFolder(tmp_path))

    assert location.data == tmp_path / "postgres" / "data"


def test_a_recorded_place_is_followed(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    location_file(state).write_text(f"{outside_base(state)}\n")

    assert current_location(state).base == outside_base(state)
    assert current_location(state).home == tmp_path


def test_the_url_survives_spaces_and_names_the_port() -> None:
    location = current_location(StateFolder(Path("/srv/my state")))

    assert " " not in location.url
    assert parse_qs(urlsplit(location.url).query) == {
        "host": ["/srv/my state/postgres/socket"],
        "port": ["5432"],
    }
