"""Decides where a cluster lives and as whom it runs, without opening any folder to strangers.

- An ordinary user: in the state folder, as that user.
- Root: as a system user (system_account.py), in the state folder if that user can be let through.
  Its ancestors are left as they are; the state folder itself, where it is closed (0700), belongs to
  root and lies in a reachable place, is opened to that user's group for passing through alone
  (0710). So that a mounted or backed-up state folder holds the database too.
- Root, with the state folder below a closed folder: in /var/lib, recorded in the state folder.
- A cluster that exists keeps its place and its owner, also where that is only a number by now (a
  container that was made anew has other numbers for the same names).
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from skippy_site.state import StateFolder
from skippy_site.supervisor.postgres_location import (
    PostgresLocation,
    current_location,
    location_file,
    outside_base,
)
from skippy_site.supervisor.problems import ServiceProblem
from skippy_site.supervisor.sockets import make_private_folder
from skippy_site.supervisor.system_account import ACCOUNT_NAME, Account, database_account, owner_of


@dataclass(frozen=True, slots=True)
class PostgresHome:
    """Where the cluster is and who runs it; `account` is None where this process's own user does."""

    location: PostgresLocation
    account: Account | None

    @property
    def owner(self) -> Account:
        return self.account or Account.current()


def settle_postgres_home(state: StateFolder, *, account_name: str = ACCOUNT_NAME) -> PostgresHome:
    """Find the cluster's home or make a new one. Raises ServiceProblem where neither is possible."""
    location = current_location(state)
    is_recorded = location_file(state).exists()
    if os.geteuid() != 0:
        home = _home_of_user(location)
    elif (location.data / "PG_VERSION").exists():
        home = _home_of_existing(state, location)
    elif is_recorded and not location.base.exists():
        raise ServiceProblem(
            f"the database of this state folder was in {location.base}, which is gone: restore it, or remove "
            f"{location_file(state)} to begin with an empty database"
        )
    else:
        home = _new_home(state, account=database_account(preferred=account_name))
    for folder in (home.location.base, home.location.socket_folder):
        make_private_folder(folder, uid=home.owner.uid, gid=home.owner.gid)
    return home


def _home_of_user(location: PostgresLocation) -> PostgresHome:
    try:
        owner = owner_of(location.data)
    except FileNotFoundError:
        return PostgresHome(location, None)
    except PermissionError:
        raise ServiceProblem(
            f"the database of this state folder, {location.base}, belongs to another user: run this as root, "
            "as it was before, or choose another SKIPPY_HOME"
        ) from None
    if owner.uid != os.geteuid():
        raise ServiceProblem(
            f"the database in {location.data} belongs to {owner.name}: run this as root or as {owner.name}"
        )
    return PostgresHome(location, None)


def _home_of_existing(state: StateFolder, location: PostgresLocation) -> PostgresHome:
    account = owner_of(location.data)
    if account.uid == 0:
        raise ServiceProblem(
            f"the database in {location.data} belongs to root, and Postgres does not run as root: give it to "
            f"{ACCOUNT_NAME} with chown -R"
        )
    if not _can_reach(state, location.base.parent, account):
        raise ServiceProblem(
            f"the user {account.name}, who owns the database in {location.data}, cannot reach it: a folder "
            "above was closed"
        )
    return PostgresHome(location, account)


def _new_home(state: StateFolder, *, account: Account) -> PostgresHome:
    if not location_file(state).exists() and _can_reach(state, state.root, account):
        return PostgresHome(PostgresLocation(home=state.root, base=state.postgres), account)
    base = outside_base(state)
    if not location_file(state).exists() and (base / "data").exists():
        raise ServiceProblem(
            f"{base} holds the database of an earlier state folder at this place: remove it to begin anew, "
            f"or write its name into {location_file(state)} to go on with it"
        )
    make_private_folder(base, uid=account.uid, gid=account.gid)
    # Recorded before the cluster is made: found empty later, it is an interrupted first start.
    location_file(state).write_text(f"{base}\n", encoding="utf-8")
    return PostgresHome(PostgresLocation(home=state.root, base=base), account)


def _can_reach(state: StateFolder, folder: Path, account: Account) -> bool:
    if account.can_enter(folder):
        return True
    root = state.root
    found = root.stat()
    is_ours_alone = found.st_uid == 0 and stat.S_IMODE(found.st_mode) == 0o700
    if not (is_ours_alone and account.can_enter(root.parent)):
        return False
    os.chown(root, -1, account.gid)
    root.chmod(0o710)
    return account.can_enter(folder)
