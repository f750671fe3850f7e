"""All models of this process: what their rows say is made so, and kept so.

Rows are read about every second, and at once when somebody says that they have changed. Each model then
takes the next step of its life by itself (hosted_model.py), so that the others serve on meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace

from accounts.contracts import Principal
from inference.domain.clock import Clock
from inference.domain.errors import InvalidRequest, ModelNotFound, ServiceUnavailable, SkippyError
from inference.domain.model import ListedModel
from inference.domain.model_settings import ModelSettings, ModelState, ModelStatus, ModelStore
from inference.engine.load_error import ModelDoesNotFit
from inference.engine.load_order import LoadOrder
from inference.hosting.condition import FleetCondition
from inference.hosting.hosted_model import HostedModel
from inference.hosting.lease import ModelLease
from inference.hosting.loaded_model import LoadedModel, ModelStatistics
from inference.hosting.standing import Standing
from inference.hosting.workshop import ModelSizes, ModelWorkshop
from inference.services.model_access import models_of
from inference.services.model_catalog import FoundModel, ModelCatalog, no_such_model

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
# A change of state is reported at once, and that the process lives so often.
REPORT_EVERY_S = 5.0


class Fleet:
    """For one event loop: `start()`, then `begin_drain`, `begin_stop` and `stop`.

    `drain_grace_s`: how long those who use a model may go on when it is to go.
    """

    def __init__(
        self, store: ModelStore, workshop: ModelWorkshop, *, clock: Clock, drain_grace_s: float
    ) -> None:
        self.catalog = ModelCatalog()
        self.rows: tuple[ModelSettings, ...] = ()
        """What the store said last."""
        self._store = store
        self._workshop = workshop
        self._clock = clock
        self._drain_grace_s = drain_grace_s
        self._models: dict[int, HostedModel] = {}
        self._leaving: list[HostedModel] = []
        self._is_read = False
        self._is_away = False
        self._rows_refusal = ""
        self._is_settled = False
        self._refusal: SkippyError | None = None
        self._told = asyncio.Event()
        self._loading = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._reported: tuple[ModelStatus, ...] | None = None
        self._reported_ts = 0.0

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    def refresh(self) -> None:
        """The rows have changed: look at once."""
        self._told.set()

    def begin_drain(self, error: SkippyError) -> None:
        """No newcomers from now on; what waits is answered at once, what runs goes on."""
        self._refusal = error
        for model in self._all:
            model.refuse(error)

    def begin_stop(self) -> None:
        """Whoever still generates gets an error in-band, at once."""
        for model in self._all:
            model.begin_stop()

    async def stop(self) -> None:
        """End all engines and free what they hold."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await asyncio.gather(*[model.stop() for model in self._all])
        with contextlib.suppress(Exception):  # then others notice by its silence
            await self._store.close()

    # -- keeping it so ----------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._read()
            for model in self._all:
                model.advance()
            self._leaving = [model for model in self._leaving if not model.is_gone]
            await self._report()
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._told.wait()
            except TimeoutError:
                pass
            self._told.clear()

    async def _read(self) -> None:
        try:
            rows = await self._store.settings()
        except InvalidRequest as problem:
            # Not the database's fault: waiting alone does not help.
            if problem.message != self._rows_refusal:
                _log.critical("%s", problem.message)
            self._rows_refusal = problem.message
            return
        except Exception as problem:
            if not self._is_away:
                _log.warning("models cannot be read: %s", type(problem).__name__)
            self._is_away = True
            return
        self._is_away, self._rows_refusal = False, ""
        if rows != self.rows or not self._is_read:
            self._take_over(rows)
        self._is_read = True

    def _take_over(self, rows: tuple[ModelSettings, ...]) -> None:
        if self._refusal is not None:
            return
        models: dict[int, HostedModel] = {}
        for settings in rows:
            model = self._models.pop(settings.row_id, None)
            if model is None:
                model = self._host(settings)
            model.take_over(settings)
            models[settings.row_id] = model
        for model in self._models.values():
            model.retire()
            self._leaving.append(model)
        self._models, self.rows = models, rows
        self.catalog = ModelCatalog(rows)

    def _host(self, settings: ModelSettings) -> HostedModel:
        return HostedModel(
            settings,
            workshop=self._workshop,
            load=self._load,
            clock=self._clock,
            drain_grace_s=self._drain_grace_s,
            on_change=self.refresh,
        )

    async def _load(self, order: LoadOrder, sizes: ModelSizes) -> LoadedModel:
        """One at a time: each load has all cores that the answers leave, and finds the memory as the one
        before has left it. Where it does not fit, those on demand that nobody uses make room, the one first
        that was used least recently."""
        async with self._loading:
            while True:
                others = self.loaded()
                others_bytes = sum([one.claimed_bytes for one in others]) if others else None
                try:
                    return await self._workshop.load(replace(order, others_bytes=others_bytes), sizes)
                except ModelDoesNotFit:
                    idle = [model for model in self._all if model.is_idle]
                    if not idle:
                        raise
                    await min(idle, key=lambda model: model.last_used_ts).evict()

    async def _report(self) -> None:
        """Said where it is new, and now and then that the process lives."""
        statuses, now_ts = self.statuses(), self._clock.monotonic()
        is_news = _told_states(statuses) != _told_states(self._reported)
        if not is_news and now_ts - self._reported_ts < REPORT_EVERY_S:
            return
        try:
            await self._store.report(statuses)
        except Exception as problem:
            _log.debug("the state of models could not be reported: %s", type(problem).__name__)
            return
        self._reported, self._reported_ts = statuses, now_ts

    def watch(self) -> None:
        """Look whether all engines make progress, every second or so. A dead one is freed and its model
        loaded again, where others serve meanwhile."""
        for model in self._all:
            model.watch()
        if any(model.serves for model in self._models.values()):
            for model in self._all:
                if model.is_dead:
                    model.bury()

    # -- for doors --------------------------------------------------------------------------------

    def find(self, name: str | None, principal: Principal) -> HostedModel:
        """By id or alias; None is the default model. Raises ModelNotFound, also where it is not this
        caller's to use, and ServiceUnavailable as long as nobody knows which models there are."""
        return self._models[self._found(name, principal).settings.row_id]

    def _found(self, name: str | None, principal: Principal) -> FoundModel:
        if not self._is_read:
            raise self._refusal or ServiceUnavailable("The service cannot generate now: it is starting.")
        may_use = models_of(principal)
        if name is None:
            return FoundModel(self.catalog.default(may_use=may_use))
        return self.catalog.model(name, may_use=may_use)

    def id_of(self, name: str, principal: Principal) -> str:
        """The id of what a caller means by `name`; as it was said, where there is nothing of that name."""
        try:
            return self.catalog.model(name, may_use=models_of(principal)).id
        except ModelNotFound:
            return name

    async def acquire(self, name: str | None, principal: Principal, *, limit_s: float | None) -> ModelLease:
        """A lease of the model; one that loads on demand is waited for, at most `limit_s`. Raises as
        `find`, and ServiceUnavailable where the model is going, coming, or cannot be had."""
        found = self._found(name, principal)
        may_choose = models_of(principal)(found.settings)
        lease = await self._models[found.settings.row_id].acquire(limit_s=limit_s)
        if found.adapter:
            try:
                _name_adapter(lease, found, may_choose=may_choose)
            except BaseException:
                lease.release()
                raise
        return lease

    def listed(self, principal: Principal) -> list[ListedModel]:
        """What a caller may use. One that an operator has unloaded is none of it."""
        found = self.catalog.variants(may_use=models_of(principal))
        listed = [(self._models[one.settings.row_id], one) for one in found]
        return [
            _listed(model, one)
            for model, one in listed
            if model.standing is not Standing.UNLOADED or model.state is ModelState.DRAINING
        ]

    def listed_one(self, name: str, principal: Principal) -> ListedModel:
        """One of them by any name. Raises as `find`."""
        model = self.find(name, principal)
        return _listed(model, self.catalog.model(name, may_use=models_of(principal)))

    # -- what is told of it -----------------------------------------------------------------------

    @property
    def _all(self) -> list[HostedModel]:
        return [*self._models.values(), *self._leaving]

    def loaded(self) -> list[LoadedModel]:
        """All that are in memory, in the order of their rows."""
        return [model.loaded for model in self._all if model.loaded is not None]

    def known_ids(self) -> list[str]:
        return [row.id for row in self.rows]

    def recorded_ids(self) -> list[str]:
        """What records may say of a request's model."""
        return [found.id for found in self.catalog.variants()]

    def statuses(self) -> tuple[ModelStatus, ...]:
        return tuple([model.status for model in self._models.values()])

    def statistics(self) -> dict[str, ModelStatistics]:
        """By id, of those that are loaded."""
        return {loaded.served.settings.id: loaded.statistics() for loaded in self.loaded()}

    def condition(self) -> FleetCondition:
        models = list(self._models.values())
        condition = FleetCondition(
            is_read=self._is_read,
            num_models=len(models),
            num_serving=len([model for model in models if model.serves]),
            pending=tuple(
                [
                    model.settings.id
                    for model in models
                    if model.standing is Standing.LOADED
                    and model.state in (ModelState.UNLOADED, ModelState.LOADING, ModelState.DRAINING)
                ]
            ),
            failures=tuple(
                [
                    (model.settings.id, model.cause)
                    for model in models
                    if model.state is ModelState.FAILED or model.is_dead
                ]
            ),
            has_dead=any(model.is_dead for model in models),
            is_stuck=any(model.is_stuck for model in self._all),
            refusal=self._rows_refusal,
            was_settled=self._is_settled,
        )
        self._is_settled = condition.is_settled
        return condition

    def __repr__(self) -> str:
        return f"<Fleet of {len(self._models)} models, {len(self.loaded())} loaded>"


def _told_states(statuses: tuple[ModelStatus, ...] | None) -> list[tuple[object, ...]] | None:
    """What of a report is news: counts change all the time."""
    if statuses is None:
        return None
    return [(one.row_id, one.state, one.revision, one.cause) for one in statuses]


def _name_adapter(lease: ModelLease, found: FoundModel, *, may_choose: bool) -> None:
    """Let the lease's model be the one that was named with an adapter, by what the name and the rights were
    when the request came: the name may mean another model by now. Raises ModelNotFound where the adapter has
    gone meanwhile."""
    if not any(one.name == found.adapter for one in lease.model.settings.adapters):
        raise no_such_model(found.id)
    lease.model = lease.model.named(found.adapter, may_choose=may_choose)


def _listed(model: HostedModel, found: FoundModel) -> ListedModel:
    if not found.adapter:
        return model.listed
    listed = model.listed
    description = None if listed.description is None else replace(listed.description, embedding=None)
    return replace(listed, id=found.id, parent=found.settings.id, description=description)
