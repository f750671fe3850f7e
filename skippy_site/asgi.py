"""The ASGI application, put together: API consumers beside Django, one runtime, its life.

Importing this module loads no model; the server calls `lifespan.start()` for that.
"""

from __future__ import annotations

import os
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import django
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from channels.sessions import CookieMiddleware
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skippy_site.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.db import connection  # noqa: E402
from django.urls import re_path  # noqa: E402

from accounts.last_used import LastUsedBuffer  # noqa: E402
from accounts.limits.ceiling import Ceiling  # noqa: E402
from accounts.limits.desk import SharedLimitDesk  # noqa: E402
from accounts.pass_desk import pass_lookup  # noqa: E402
from accounts.selectors import api_key_lookup  # noqa: E402
from hooks.contracts.exchange import HookDesk  # noqa: E402
from inference.api.authentication import Authenticator  # noqa: E402
from inference.dashboards.live.board import LiveBoard, LiveSources  # noqa: E402
from inference.dashboards.live.rights import watching_sessions  # noqa: E402
from inference.dashboards.live.socket import LiveSocket  # noqa: E402
from inference.domain.clock import Clock, SystemClock  # noqa: E402
from inference.domain.kept_answers import AnswerKeeping  # noqa: E402
from inference.domain.outcomes import Recorder  # noqa: E402
from inference.domain.time_limits import TimeLimits  # noqa: E402
from inference.engine.local import LocalEngineLoader  # noqa: E402
from inference.hosting.workshop import ServingSettings  # noqa: E402
from inference.ledger.database_calls import database_parameters, in_database  # noqa: E402
from inference.ledger.generation_ledger import GenerationLedger  # noqa: E402
from inference.ledger.kept_responses import DatabaseKeptResponses  # noqa: E402
from inference.ledger.kept_texts import DatabaseKeptTexts  # noqa: E402
from inference.ledger.live_listener import LiveListener  # noqa: E402
from inference.ledger.live_watch import LiveWatch  # noqa: E402
from inference.ledger.named_requests import DatabaseNamedRequests  # noqa: E402
from inference.ledger.partitions import partitions_ensure  # noqa: E402
from inference.ledger.store import PostgresRecordStore  # noqa: E402
from inference.model_rows.store import PostgresModelStore  # noqa: E402
from inference.routing import Watching, api_routes  # noqa: E402
from inference.runtime import Runtime, RuntimeSettings  # noqa: E402
from inference.telemetry.policy_observer import PolicyObserver  # noqa: E402
from inference.telemetry.recent_events import RecentEvents  # noqa: E402
from inference.usage.desk import DatabaseUsageDesk  # noqa: E402
from skippy_site.env import Environment  # noqa: E402
from skippy_site.hook_desk import PolicyFeed  # noqa: E402
from skippy_site.hook_rows import make_policy_store  # noqa: E402
from skippy_site.lifespan import SiteLifespan  # noqa: E402
from skippy_site.limit_store import make_limit_store  # noqa: E402
from skippy_site.maintenance import make_maintenance_watch  # noqa: E402
from skippy_site.model_files import ModelFileSources  # noqa: E402
from skippy_site.model_rows import first_model, serving_process  # noqa: E402
from skippy_site.model_sizes import sizes_of  # noqa: E402
from skippy_site.probes import CachedProbe, ask_broker, ask_database  # noqa: E402
from skippy_site.proxies import TrustedProxies  # noqa: E402
from skippy_site.telemetry import make_recorder, make_watching  # noqa: E402
from skippy_site.webhooks import make_webhook_caller  # noqa: E402

LIVE_PATIENCE_S = 1.0


async def refuse_websocket(scope: Any, receive: Any, send: Any) -> None:
    """Nothing of ours is there: close it politely instead of failing."""
    await receive()
    await send({"type": "websocket.close", "code": 4404})


def make_ledger(clock: Clock) -> GenerationLedger:
    """The records of this process, in the state folder and in Django's database."""
    parameters = database_parameters()
    return GenerationLedger(
        settings.STATE.journal, make_store=lambda: PostgresRecordStore(parameters), clock=clock
    )


async def make_partitions() -> None:
    """Months of the records, where the service was off for longer than they were made ahead."""
    await in_database(lambda: partitions_ensure(connection=connection))


def make_runtime(
    environment: Environment, ledger: GenerationLedger, recorder: Recorder, hook_desk: HookDesk, clock: Clock
) -> Runtime:
    """The one runtime of this process."""
    first = first_model(environment, settings.STATE, os.environ)
    store = PostgresModelStore(serving_process(), first=first)
    return Runtime(
        RuntimeSettings(
            strict_fields=environment.strict_fields,
            has_shared_prefixes=environment.shared_prefixes,
            allows_gbnf=environment.allow_gbnf,
            drain_grace_s=environment.drain_grace_s,
            session_header=environment.session_header.lower(),
            time_limits=TimeLimits(
                request_s=environment.request_timeout_s,
                admission_s=environment.admission_timeout_s,
                send_s=environment.stall_timeout_s,
                early_headers_s=environment.early_headers_s,
                keep_alive_s=environment.keep_alive_s,
                token_gap_s=environment.token_gap_timeout_s,
            ),
            serving=ServingSettings(
                watchdog_s=environment.watchdog_s,
                chat_defaults=environment.chat_defaults,
                media_limits=environment.media_limits,
                media_hosts=environment.allowed_media_hosts,
                prompt_policy=environment.prompt_policy,
            ),
        ),
        store=store,
        # A first start that cannot serve what it was told to ends with that, as a wrong setting does.
        is_repairable=lambda: not store.has_made_first,
        sources=ModelFileSources(settings.STATE),
        sizes=partial(sizes_of, environment),
        loader=LocalEngineLoader(clock=clock),
        recorder=recorder,
        ledger=ledger,
        answer_keeping=AnswerKeeping(
            DatabaseNamedRequests(),
            DatabaseKeptTexts(timedelta(days=environment.text_retention_days)),
            DatabaseKeptResponses(),
        ),
        clock=clock,
        database_probe=CachedProbe("database", ask_database, clock=clock),
        broker_probe=CachedProbe("broker", partial(ask_broker, settings.CELERY_BROKER_URL), clock=clock),
        hook_desk=hook_desk,
    )


def make_limit_desk(environment: Environment, clock: Clock) -> SharedLimitDesk:
    """Counts with all other processes on this database, under a name of its own."""
    ceiling = Ceiling(
        max_requests_per_minute=environment.max_requests_per_minute,
        max_tokens_per_minute=environment.max_tokens_per_minute,
    )
    return SharedLimitDesk(make_limit_store(uuid4()), ceiling=ceiling, clock=clock)


def make_application(
    environment: Environment,
    runtime: Runtime,
    watching: Watching,
    last_used: LastUsedBuffer,
    limit_desk: SharedLimitDesk,
    *,
    live_board: LiveBoard,
) -> Any:
    """API routes first; what they do not know is Django's."""
    authenticator = Authenticator(
        lambda key: api_key_lookup(plaintext=key),
        last_used.note,
        look_up_pass=lambda shown, headers: pass_lookup(text=shown, headers=headers),
        note_refusal=watching.metrics.note_refused_key,
    )
    routes = api_routes(
        runtime=runtime,
        authenticator=authenticator,
        limit_desk=limit_desk,
        watching=watching,
        usage=DatabaseUsageDesk(),
        max_body_bytes=environment.max_body_bytes,
    )
    router = ProtocolTypeRouter(
        {
            "http": URLRouter([*routes, re_path(r"", get_asgi_application())]),
            "websocket": AllowedHostsOriginValidator(
                CookieMiddleware(
                    URLRouter(
                        [
                            re_path(r"^console/live/socket$", LiveSocket(live_board)),
                            re_path(r"", refuse_websocket),
                        ]
                    )
                )
            ),
        }
    )
    return TrustedProxies(router, environment.trusted_networks_text)


def make_live_board(runtime: Runtime, recent: RecentEvents, clock: Clock) -> LiveBoard:
    """What operators look on."""
    return LiveBoard(
        LiveSources(
            fleet=runtime.fleet,
            recent=recent,
            requests=LiveWatch(database_parameters(), patience_s=LIVE_PATIENCE_S, clock=clock),
            ask_rights=watching_sessions,
            ask_maintenance=lambda: runtime.maintenance.now,
            clock=clock,
        )
    )


def served_models() -> list[str]:
    """The ids of all models that there are, loaded or not."""
    return _runtime.fleet.recorded_ids()


_clock = SystemClock()
_watching = make_watching(settings.ENVIRONMENT, clock=_clock, known_models=served_models)
_ledger = make_ledger(_clock)
_recent = RecentEvents(_clock)
_recorder = make_recorder(_watching, _recent)
_policy_store = make_policy_store()
_webhook_caller = make_webhook_caller(settings.ENVIRONMENT)
_policy_feed = PolicyFeed(
    _policy_store, _webhook_caller, PolicyObserver(_watching.metrics.policies, _recorder)
)
_runtime = make_runtime(settings.ENVIRONMENT, _ledger, _recorder, _policy_feed.desk, _clock)
_maintenance_watch = make_maintenance_watch()
_maintenance_watch.subscribe(lambda said: _runtime.maintenance.take(said, _ledger.live()))
_last_used = LastUsedBuffer()
_live_board = make_live_board(_runtime, _recent, _clock)
_limit_desk = make_limit_desk(settings.ENVIRONMENT, _clock)
_watching.metrics.watch_webhooks(_webhook_caller.statistics)
application = make_application(
    settings.ENVIRONMENT, _runtime, _watching, _last_used, _limit_desk, live_board=_live_board
)
lifespan = SiteLifespan(
    _runtime,
    _ledger,
    _last_used,
    _limit_desk,
    _watching.telemetry,
    live_listener=LiveListener(database_parameters(), _ledger.live),
    policy_store=_policy_store,
    policy_feed=_policy_feed,
    maintenance_watch=_maintenance_watch,
    prepare_database=make_partitions,
)
