"""Fetches one file from a Hugging Face hub (or a mirror named by HF_ENDPOINT) into the state folder.

A file that is here is used as it is, without asking the hub: starts do not depend on the network, and a
branch that moves does not change the model under a running service. A download that was cut off goes on
where it stopped, if the hub still has the same file (told by its ETag). huggingface_hub's own cache
keeps no part of a file whose process ended, hence its lower-level calls.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from skippy_site.provision.model_source import HubFile, ModelProblem
from skippy_site.provision.wheel_cache import file_sha256

if TYPE_CHECKING:
    from huggingface_hub import HfFileMetadata

REPORT_INTERVAL_S = 5.0
SHA256 = re.compile(r"[0-9a-f]{64}")


def fetch_from_hub(wanted: HubFile, name: str, folder: Path, report: Callable[[str], None]) -> Path:
    """`name` of the wanted repository and revision, under `folder`. Raises ModelProblem."""
    target = folder / wanted.repo / wanted.revision.replace("/", "--") / name
    if target.is_file():
        return target
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or None
    where = f"{name} in {wanted.repo}"
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(target, report), _explained(wanted, where, endpoint):
            if not target.is_file():
                _download(wanted, name, target, endpoint, report)
    except OSError as problem:
        raise ModelProblem(f"SKIPPY_MODEL: {where}: {_system_problem(problem, target)}") from None
    return target


def _download(
    wanted: HubFile, name: str, target: Path, endpoint: str | None, report: Callable[[str], None]
) -> None:
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    report(f"looking for {name} in {wanted.repo}")
    url = hf_hub_url(wanted.repo, name, revision=wanted.revision, endpoint=endpoint)
    found = get_hf_file_metadata(url, endpoint=endpoint, retry_on_errors=False)
    if found.etag is None or found.size is None:
        raise ModelProblem(f"SKIPPY_MODEL: {urlsplit(url).netloc} does not answer as a Hugging Face hub does")
    part = _partial_file(target, found.etag)
    present_bytes = part.stat().st_size if part.exists() else 0
    if present_bytes > found.size:
        part.unlink()
        present_bytes = 0
    _require_space(target, found.size - present_bytes, name)
    headers = build_hf_headers()
    if urlsplit(found.location).netloc != urlsplit(url).netloc:
        headers.pop("authorization", None)  # the store behind the hub has its own
    if present_bytes:
        report(f"going on with {name} at {present_bytes / 1e9:.2f} of {found.size / 1e9:.2f} GB")
    with part.open("ab") as file:
        http_get(
            found.location,
            file,
            resume_size=present_bytes,
            headers=headers,
            expected_size=found.size,
            displayed_filename=name,
            tqdm_class=_reporting_bar(name, report),
        )
        file.flush()
        os.fsync(file.fileno())
    _verify(part, found, name)
    part.replace(target)
    report(f"{name} is here ({found.size / 1e9:.2f} GB, commit {(found.commit_hash or 'unknown')[:12]})")


def _verify(part: Path, found: HfFileMetadata, name: str) -> None:
    """Large files have their SHA-256 as ETag; small ones a git hash, which is left unchecked."""
    if found.etag and SHA256.fullmatch(found.etag) and file_sha256(part) != found.etag:
        part.unlink()
        raise ModelProblem(
            f"SKIPPY_MODEL: {name} arrived damaged (wrong SHA-256); start again to fetch it anew"
        )


def _partial_file(target: Path, etag: str) -> Path:
    """Named after the content, so that a file that changed on the hub is not mended with another's rest."""
    short = hashlib.sha256(etag.encode()).hexdigest()[:12]
    part = target.with_name(f".{target.name}.{short}.part")
    for other in target.parent.glob(f".{target.name}.*.part"):
        if other != part:
            other.unlink()
    return part


def _require_space(target: Path, needed_bytes: int, name: str) -> None:
    status = os.statvfs(target.parent)
    free_bytes = status.f_bavail * status.f_frsize
    if free_bytes < needed_bytes:
        raise ModelProblem(
            f"SKIPPY_MODEL: {name} needs {needed_bytes / 1e9:.1f} GB more in {target.parent}, where "
            f"{free_bytes / 1e9:.1f} GB are free"
        )


@contextlib.contextmanager
def _alone(target: Path, report: Callable[[str], None]) -> Iterator[None]:
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"another process fetches {target.name}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _explained(wanted: HubFile, where: str, endpoint: str | None) -> Iterator[None]:
    """Make one line of whatever the hub's library raises."""
    import httpx2
    from huggingface_hub import constants, errors

    hub = urlsplit(endpoint or constants.ENDPOINT).netloc
    try:
        yield
    except errors.GatedRepoError:
        reason = "the repository is gated: accept its terms on its page and set HF_TOKEN"
    except errors.RevisionNotFoundError:
        reason = f"the repository has no revision {wanted.revision!r}"
    except errors.EntryNotFoundError:
        reason = f"the repository has no such file at {wanted.revision!r}"
    except errors.RepositoryNotFoundError:
        reason = "there is no such repository (or it is private: set HF_TOKEN)"
    except errors.OfflineModeIsEnabled:
        reason = "it is not here yet, and HF_HUB_OFFLINE forbids fetching it"
    except errors.HfHubHTTPError as problem:
        status = problem.response.status_code if problem.response is not None else "an error"
        reason = f"{hub} answered {status}"
    except (httpx2.HTTPError, ConnectionError) as problem:
        reason = f"{hub} cannot be reached ({type(problem).__name__}); check the network, or set HF_ENDPOINT"
    except errors.HFValidationError:
        reason = "not a valid repository name"
    else:
        return
    raise ModelProblem(f"SKIPPY_MODEL: {where}: {reason}") from None


def _system_problem(problem: OSError, target: Path) -> str:
    if problem.errno == errno.ENOSPC:
        return f"no space is left in {target.parent}"
    # huggingface_hub raises a bare OSError where the size is not the announced one.
    text = problem.strerror or " ".join(str(problem).split()) or type(problem).__name__
    return f"{text} (start again: what has arrived is kept)"


def _reporting_bar(name: str, report: Callable[[str], None]) -> Any:
    """A class with the part of tqdm's interface that the library uses, telling `report` now and then."""

    class ReportingBar:
        def __init__(self, *, total: int | None = None, initial: int = 0, **ignored: object) -> None:
            self._total, self._present = total, initial
            self._initial, self._started_ts = initial, time.monotonic()
            self._reported_ts = time.monotonic()

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *ignored: object) -> None:
            pass

        def update(self, num_bytes: float | None = 1) -> None:
            self._present += int(num_bytes or 0)
            now = time.monotonic()
            if now - self._reported_ts < REPORT_INTERVAL_S:
                return
            self._reported_ts = now
            rate = (self._present - self._initial) / (now - self._started_ts) / 1e6
            share = (
                f"{self._present / self._total:.0%} of {self._total / 1e9:.2f} GB"
                if self._total
                else (f"{self._present / 1e9:.2f} GB")
            )
            report(f"downloading {name}: {share}, {rate:.0f} MB/s")

    return ReportingBar
