"""From the parts of a conversation to what the engine computes of them, in three steps.

    load     bytes of each part: those that came with it, or fetched          event loop
    lay out  decoded, checked, and how many tokens it will be                 prompt pool
    encode   rows of embeddings, or those that are there already              one thread of its own

Between the second and the third the prompt is made, and refused where it does not fit: encoding costs
seconds of all cores for what may have been known to be in vain.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from inference.domain.errors import InvalidRequest, ServiceUnavailable
from inference.domain.media import (
    EmbeddingRows,
    MediaKind,
    MediaPart,
    MediaPiece,
    MediaProjector,
    Picture,
    Sound,
    UnreadableMedia,
)
from inference.domain.media_run import MediaPlace, MediaRun
from inference.media.encoded import EncodedMedia, EncodedMediaCache, EncodedMediaStatistics
from inference.media.fetching import MediaFetcher
from inference.media.limits import MediaLimits
from inference.media.pictures import decode_picture
from inference.media.sounds import decode_sound
from inference.services.prompt_turns import PromptTurns

# Files of all requests that are on their way at the same time.
MAX_FETCHES = 16

_NAMES = {MediaKind.IMAGE: "image", MediaKind.AUDIO: "audio"}


@dataclass(frozen=True, slots=True, repr=False)
class MediaFile:
    """The bytes of a part; `digest` is their SHA-256. `encoded` is there where the same file was read
    before: then it need not even be decoded."""

    part: MediaPart
    data: bytes
    digest: bytes
    encoded: EncodedMedia | None = None


@dataclass(frozen=True, slots=True)
class MediaItem:
    """A part that can be read, and what will stand for it in the prompt."""

    file: MediaFile
    pieces: tuple[MediaPiece, ...]


class MediaDesk:
    """Reads pictures and sounds for one model. `projector` None is a model that takes text alone: then
    every part is refused, by its place.

    `load` and `encode` are for the event loop and may be cancelled at any time; an encoding that runs
    is then finished, for whoever comes next. Users take turns, file by file.
    """

    def __init__(
        self,
        projector: MediaProjector | None,
        limits: MediaLimits,
        fetcher: MediaFetcher,
    ) -> None:
        self._projector = projector
        self._limits = limits
        self._fetcher = fetcher
        self._cache = EncodedMediaCache(limits.max_memory_bytes)
        self._fetches = asyncio.Semaphore(MAX_FETCHES)
        self._turns = PromptTurns(max_at_once=1)
        self._is_closed = False
        self._encodings: set[asyncio.Task[EncodedMedia]] = set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="media")

    @property
    def kinds(self) -> frozenset[MediaKind]:
        return frozenset() if self._projector is None else self._projector.kinds

    @property
    def statistics(self) -> EncodedMediaStatistics:
        return self._cache.statistics

    def check(self, parts: Sequence[MediaPart]) -> None:
        """Raise InvalidRequest for what this model cannot read, before anything is fetched for it."""
        for index, part in enumerate(parts):
            if part.kind not in self.kinds:
                takes = " and ".join(sorted(["text", *[_NAMES[kind] for kind in self.kinds]]))
                raise _refusal(part, f"this model takes {takes} only, not {_NAMES[part.kind]} parts")
            if index >= self._limits.max_items:
                raise _refusal(part, f"a request may hold at most {self._limits.max_items} of such parts")

    async def load(self, parts: Sequence[MediaPart]) -> tuple[MediaFile, ...]:
        """The bytes of each part, in their order. Raises InvalidRequest with the part as `param`."""
        self.check(parts)
        if not parts:
            return ()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._load(part)) for part in parts]
        outcomes = [task.result() for task in tasks]
        files: list[MediaFile] = []
        for outcome in outcomes:
            if isinstance(outcome, InvalidRequest):
                raise outcome
            files.append(outcome)
            if sum([len(file.data) for file in files]) > self._limits.max_request_bytes:
                most = self._limits.max_request_bytes
                raise _refusal(outcome.part, f"with it, the request's files are larger than {most} bytes")
        return tuple(files)

    async def _load(self, part: MediaPart) -> MediaFile | InvalidRequest:
        """A refusal is returned: a group of tasks would wrap it, and the first part's counts."""
        try:
            data = part.data if part.data is not None else await self._fetch(part.url or "")
        except UnreadableMedia as problem:
            return _refusal(part, str(problem))
        if len(data) > self._limits.max_bytes:
            return _refusal(part, f"it is larger than {self._limits.max_bytes} bytes")
        digest = hashlib.sha256(data).digest()
        return MediaFile(part, data, digest, self._cache.find(digest))

    async def _fetch(self, url: str) -> bytes:
        async with self._fetches:
            return await self._fetcher.fetch(url)

    def lay_out(self, files: Sequence[MediaFile]) -> tuple[MediaItem, ...]:
        """What will stand for each file; decodes it, which takes up to a second. From any thread. Raises
        InvalidRequest with the part as `param`."""
        return tuple([MediaItem(file, self._pieces(file)) for file in files])

    def _pieces(self, file: MediaFile) -> tuple[MediaPiece, ...]:
        if file.encoded is not None:
            return file.encoded.pieces
        try:
            return self._reader.lay_out(self._decode(file))
        except UnreadableMedia as problem:
            raise _refusal(file.part, str(problem)) from problem

    @property
    def _reader(self) -> MediaProjector:
        if self._projector is None:
            raise RuntimeError("a model without a projector was asked to read a picture")
        return self._projector

    def _decode(self, file: MediaFile) -> Picture | Sound:
        if file.part.kind is MediaKind.IMAGE:
            return decode_picture(file.data, file.digest, self._limits)
        return decode_sound(file.data, file.digest, self._reader.sound_rate, self._limits)

    async def encode(
        self, items: Sequence[MediaItem], places: Sequence[MediaPlace], *, user_id: int
    ) -> tuple[MediaRun, ...]:
        """The rows of each item, where they stand in the prompt. Raises ServerOverloaded where memory for
        them is short, and GenerationFailed."""
        encoded = {item.file.part.mark: await self._encode(item, user_id) for item in items}
        return tuple([_run(encoded[place.mark], place) for place in places])

    async def _encode(self, item: MediaItem, user_id: int) -> EncodedMedia:
        if item.file.encoded is not None:
            return item.file.encoded
        await self._turns.take(user_id)
        # The thread cannot be stopped: whoever leaves, the turn lasts as long as its work.
        task = asyncio.create_task(self._use_turn(item))
        self._encodings.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    async def _use_turn(self, item: MediaItem) -> EncodedMedia:
        digest, num_bytes = item.file.digest, self._num_bytes(item)
        try:
            # Another part may have been the same picture, here or in a request before this one.
            if (found := self._cache.find(digest)) is not None:
                return found
            self._cache.make_room(num_bytes)
            work = partial(self._decode_and_encode, item.file)
            rows = await asyncio.get_running_loop().run_in_executor(self._thread, work)
            return self._cache.add(digest, item.pieces, rows, num_bytes)
        except (asyncio.CancelledError, RuntimeError):
            # Nobody cancels this task: the thread takes no more work.
            if self._is_closed:
                raise ServiceUnavailable("The service is shutting down.") from None
            raise
        finally:
            self._turns.end()

    def _forget(self, task: asyncio.Task[EncodedMedia]) -> None:
        self._encodings.discard(task)
        if not task.cancelled():
            task.exception()  # told to whoever still waits; nobody else wants to hear of it

    def _decode_and_encode(self, file: MediaFile) -> tuple[EmbeddingRows, ...]:
        return self._reader.encode(self._decode(file))

    def _num_bytes(self, item: MediaItem) -> int:
        num_rows = sum([len(piece.token_ids) for piece in item.pieces if piece.is_embedded])
        return num_rows * self._reader.row_bytes

    def close(self) -> None:
        """Take no more files; what is being encoded is finished, and waited for. Frees the projector."""
        self._is_closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._projector is not None:
            self._projector.close()

    def check_integrity(self) -> None:
        """Raise AssertionError unless the counts of what is kept are right."""
        self._cache.check_integrity()

    def __repr__(self) -> str:
        return f"<MediaDesk of {self._projector!r}, {self._cache!r}>"


def _run(media: EncodedMedia, place: MediaPlace) -> MediaRun:
    piece = place.piece
    return MediaRun(place.start, media.rows[place.index], piece.is_causal, piece.grid, owner=media)


def _refusal(part: MediaPart, reason: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid '{part.param}': {reason}.", param=part.param)
