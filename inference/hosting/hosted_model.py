"""The life of one model in this process.

    UNLOADED → LOADING → READY → DRAINING → UNLOADED
                  └─────────┴──→ FAILED → LOADING

One change at a time, each a task of its own: what runs is never interfered with, so that a model never
has two engines. `advance()` looks what comes next (standing.py) and begins it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from inference.domain.clock import Clock
from inference.domain.errors import SkippyError
from inference.domain.model import ListedModel, ModelDescription
from inference.domain.model_settings import ModelSettings, ModelState, ModelStatus
from inference.engine.allocator import give_back
from inference.engine.load_error import ModelLoadError
from inference.engine.load_order import LoadOrder
from inference.hosting.lease import ModelLease
from inference.hosting.load_waiters import LoadWaiters
from inference.hosting.loaded_model import LoadedModel
from inference.hosting.refusals import check_worth_waiting, has_failed, not_loaded, still_loading
from inference.hosting.retries import Retries
from inference.hosting.standing import Situation, Standing, Step, load_key, next_step, standing_of
from inference.hosting.workshop import ModelSizes, ModelWorkshop

_log = logging.getLogger(__name__)

UNEXPECTED = "an unexpected fault (see the log)"
LoadInto = Callable[[LoadOrder, ModelSizes], Awaitable[LoadedModel]]
"""Loads when it is this model's turn, where there is memory for it. Raises ModelLoadError."""


class HostedModel:
    """For one event loop. `drain_grace_s`: how long those who use the model may go on when it is to go.
    `on_change` is called after each change of state."""

    def __init__(
        self,
        settings: ModelSettings,
        *,
        workshop: ModelWorkshop,
        load: LoadInto,
        clock: Clock,
        drain_grace_s: float,
        on_change: Callable[[], None],
    ) -> None:
        self.settings = settings
        self._defaults = workshop.request_defaults(settings)
        self.state = ModelState.UNLOADED
        self.cause = ""
        """Of a failure; while it loads, what the load is about."""
        self.loaded: LoadedModel | None = None
        self.is_stuck = False
        """Its engine hangs and holds what it has: only a new process helps."""
        self._workshop = workshop
        self._load_into = load
        self._clock = clock
        self._drain_grace_s = drain_grace_s
        self._on_change = on_change
        self._created = int(clock.unix_time())
        self._description: ModelDescription | None = None
        self._made_of: tuple[object, ...] = ()
        self._ready_ts = 0.0
        self._retries = Retries()
        self._waiters = LoadWaiters(clock)
        self._task: asyncio.Task[None] | None = None
        self._refusal: SkippyError | None = None
        self._is_retired = False
        self._is_evicted = False
        self._is_buried = False

    # -- what is wanted of it ---------------------------------------------------------------------

    @property
    def standing(self) -> Standing:
        return Standing.UNLOADED if self._is_retired else standing_of(self.settings)

    @property
    def is_outdated(self) -> bool:
        """It was loaded, or could not be, by settings that have changed since."""
        return bool(self._made_of) and self._made_of != load_key(self.settings)

    @property
    def serves(self) -> bool:
        """Whether a request for it could be answered: at once, or after a load on demand."""
        if self.state is ModelState.READY:
            return self.loaded is not None and self.loaded.is_alive
        return self.state is not ModelState.FAILED and self.standing is Standing.ON_DEMAND

    def take_over(self, settings: ModelSettings) -> None:
        """What the row says now. What needs no new load holds for newcomers from here on."""
        if settings == self.settings:
            return
        self.settings = settings
        self._defaults = self._workshop.request_defaults(settings)
        if self.state is ModelState.FAILED and not self.is_stuck:
            # Whatever was changed may be what helps: what failed before does not count any more.
            self._retries.reset()
            self._made_of = ()
            self._set(ModelState.UNLOADED)
        elif self.is_outdated:
            self._retries.reset()
        elif self.loaded is not None:
            self.loaded.take_over(settings, self._defaults)
        self._tell_waiters()

    def retire(self) -> None:
        """Its row is gone: whoever uses it may end, and nobody else comes."""
        self._is_retired = True
        self._tell_waiters()

    @property
    def is_gone(self) -> bool:
        """It was retired, and nothing of it is left."""
        return self._is_retired and self._task is None and self.loaded is None and not self.is_stuck

    def refuse(self, error: SkippyError) -> None:
        """The service ends: no newcomers, and who waits is answered at once; what runs goes on."""
        self._refusal = error
        self._waiters.fail(error)
        if self.loaded is not None:
            self.loaded.engine.refuse(error)

    def begin_stop(self) -> None:
        """Whoever still generates gets an error in-band, at once."""
        if self.loaded is not None:
            self.loaded.engine.begin_stop()

    async def stop(self) -> None:
        """End what it does and free what it holds; nothing comes after that."""
        self._is_retired = True
        while self._task is not None:
            self.begin_stop()
            if self.loaded is not None:
                self.loaded.leases.give_up()
            await asyncio.wait([self._task])
        if self.loaded is not None:
            await self._free()
            self._set(ModelState.UNLOADED)

    # -- what becomes of its engine ---------------------------------------------------------------

    @property
    def is_dead(self) -> bool:
        """It is there, and its engine has ended by a fault or was given up."""
        return self.state is ModelState.READY and self.loaded is not None and not self.loaded.is_alive

    def watch(self) -> None:
        """Look whether the engine makes progress; one that hangs is given up."""
        stall = self.loaded.watch() if self.loaded is not None else None
        if stall is not None:
            self.cause = f"the engine has made no progress for {stall.stalled_s:.0f} s"
            _log.critical("the engine hangs: %s", stall)

    def bury(self) -> None:
        """Free what the dead engine held, and load the model again in a while."""
        self._is_buried = True
        self.advance()

    # -- what is told of it -----------------------------------------------------------------------

    @property
    def status(self) -> ModelStatus:
        loaded = self.loaded
        return ModelStatus(
            row_id=self.settings.row_id,
            state=ModelState.FAILED if self.is_dead else self.state,
            revision=self.settings.revision,
            cause=self.cause,
            num_running=loaded.leases.num_held if loaded is not None else 0,
            memory_bytes=loaded.memory_bytes if loaded is not None else 0,
        )

    @property
    def listed(self) -> ListedModel:
        """As those see it who may use it."""
        description = self.loaded.served.description if self.loaded is not None else self._description
        return ListedModel(
            id=self.settings.id,
            state=ModelState.FAILED if self.is_dead else self.state,
            created=self._created if description is None else description.created,
            description=description,
            default_sampling=self._defaults.chat.output.sampling.said_numbers,
        )

    # -- for requests -----------------------------------------------------------------------------

    async def acquire(self, *, limit_s: float | None) -> ModelLease:
        """A lease of it. Where it loads on demand, that is begun and waited for, at most `limit_s`. May be
        cancelled at any time; a load that has begun goes on. Raises ServiceUnavailable."""
        if self._refusal is not None:
            raise self._refusal
        serves = self.state is ModelState.READY and not self.is_outdated
        if self.loaded is None or not serves or self.is_dead or self.standing is Standing.UNLOADED:
            check_worth_waiting(
                self.settings.id,
                state=self.state,
                standing=self.standing,
                is_dead=self.is_dead,
                retry_s=self._retries.remaining_s(self._clock.monotonic()),
            )
        else:
            return self.loaded.lease()
        try:
            asyncio.get_running_loop().call_soon(self.advance)  # by then this one waits
            return await self._waiters.wait(limit_s)
        except TimeoutError:
            raise still_loading(self.settings.id) from None

    def _tell_waiters(self) -> None:
        """Whoever waits for what will not come any more need not wait longer."""
        if self.standing is Standing.UNLOADED:
            self._waiters.fail(not_loaded(self.settings.id))

    # -- from state to state ----------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Loaded on demand, and nobody uses it: it may be unloaded where others need its memory."""
        return (
            self.state is ModelState.READY
            and self.standing is Standing.ON_DEMAND
            and self.loaded is not None
            and not self.loaded.leases.num_held
        )

    @property
    def last_used_ts(self) -> float:
        return self.loaded.leases.last_used_ts if self.loaded is not None else 0.0

    async def evict(self) -> None:
        """Unload it now if it `is_idle`, and wait for that; it comes back when it is asked for."""
        if not self.is_idle:
            return
        self._is_evicted = True
        self.advance()
        if self._task is not None:
            await asyncio.wait([self._task])

    def advance(self) -> None:
        """Begin what comes next, unless something goes on. Cheap; to be called whenever anything may
        have changed."""
        if self._task is not None or self.is_stuck:
            return
        if self._is_buried and self.is_dead:
            self._begin(self._bury())
            return
        match next_step(self._situation()):
            case Step.LOAD:
                self._begin(self._load())
            case Step.UNLOAD:
                self._begin(self._unload())
            case Step.FORGET:
                self._made_of = ()
                self._set(ModelState.UNLOADED)
            case Step.NONE:
                pass

    def _situation(self) -> Situation:
        now_ts = self._clock.monotonic()
        idle_s = self.settings.idle_unload_s
        is_long_idle = bool(idle_s) and now_ts - self.last_used_ts >= idle_s
        return Situation(
            state=self.state,
            standing=self.standing,
            is_outdated=self.is_outdated,
            is_demanded=self._waiters.num_waiting > 0,
            is_unused=self.is_idle and (self._is_evicted or is_long_idle),
            may_retry=not self._retries.remaining_s(now_ts),
        )

    def _begin(self, change: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.create_task(change)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (fault := task.exception()) is not None:
            _log.error("the model %s is in disorder", self.settings.id, exc_info=fault)
        self._on_change()
        self.advance()

    def _set(self, state: ModelState, cause: str = "") -> None:
        self.state, self.cause = state, cause
        self._on_change()

    async def _load(self) -> None:
        settings = self.settings
        self._made_of = load_key(settings)
        self._set(ModelState.LOADING)
        try:
            order, sizes = await self._workshop.prepare(settings, self._note_progress)
            loaded = await self._load_into(order, sizes)
        except ModelLoadError as problem:
            # What the operator did or lacks, in one sentence: a traceback would only hide it.
            _log.critical("the model %s could not be loaded: %s", settings.id, problem)
            self._fail(str(problem))
            return
        except Exception:
            _log.exception("the model %s could not be loaded", settings.id)
            self._fail(UNEXPECTED)
            return
        self.loaded = loaded
        self._description = loaded.served.description
        self._ready_ts = self._clock.monotonic()
        self._is_evicted = False
        self._set(ModelState.READY)
        _log.info("the model %s is ready", settings.id)
        if self._refusal is not None:
            loaded.engine.refuse(self._refusal)
        elif not self.is_outdated and self.standing is not Standing.UNLOADED:
            loaded.take_over(self.settings, self._defaults)
            self._waiters.grant(loaded.lease)

    def _note_progress(self, text: str) -> None:
        self.cause = text
        self._on_change()

    def _fail(self, cause: str, *, healthy_s: float = 0.0) -> None:
        self._retries.note_failure(self._clock.monotonic(), healthy_s=healthy_s)
        self._set(ModelState.FAILED, cause)
        if not self.is_outdated:
            retry_s = self._retries.remaining_s(self._clock.monotonic())
            self._waiters.fail(has_failed(self.settings.id, retry_s))

    async def _unload(self) -> None:
        """Those who use it may go on for a while; the rest is ended in-band."""
        assert self.loaded is not None
        leases = self.loaded.leases
        self._set(ModelState.DRAINING)
        if not await leases.until_free(self._drain_grace_s):
            _log.warning("ending what still uses %s: %r", self.settings.id, leases)
        if await self._free():
            self._made_of = ()
            self._set(ModelState.UNLOADED)
            _log.info("the model %s is unloaded", self.settings.id)
        else:
            self._set(ModelState.FAILED, "its engine hangs and cannot be ended")

    async def _bury(self) -> None:
        """Its engine is dead: free what it held, and try again later."""
        cause = self.cause or "the engine has stopped"
        healthy_s = self._clock.monotonic() - self._ready_ts
        self._is_buried = False
        self._set(ModelState.DRAINING, cause)
        if await self._free():
            self._fail(cause, healthy_s=healthy_s)
        else:
            self._set(ModelState.FAILED, cause)

    async def _free(self) -> bool:
        assert self.loaded is not None
        try:
            is_freed = await self.loaded.close()
        except Exception:
            _log.exception("what the model %s held could not be freed", self.settings.id)
            is_freed = False
        self.is_stuck = self.is_stuck or not is_freed
        self.loaded = None
        # Not before: its tables of the vocabulary are in the heap, too.
        await asyncio.to_thread(give_back)
        return is_freed
