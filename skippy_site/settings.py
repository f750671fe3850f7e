"""Django's settings, made from the typed environment (skippy_site/env.py) and the state folder."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import environ

from skippy_site import content_security, drf, theme
from skippy_site.env import read_environment
from skippy_site.logging import logging_configuration
from skippy_site.secret import secret_key
from skippy_site.sign_in_settings import sign_in_settings
from skippy_site.state import CHECKOUT, StateFolder
from skippy_site.supervisor.discovery import service_urls

BASE_DIR: Path = CHECKOUT
ENVIRONMENT = read_environment()
STATE = StateFolder.from_environment()
SERVICES = service_urls(ENVIRONMENT, STATE)

SECRET_KEY = secret_key(STATE.secret_key_file)
SECRET_KEY_FALLBACKS = list(ENVIRONMENT.former_secret_keys)
DEBUG = False

INSTALLED_APPS = [
    # What signs people in. Before accounts, whose admin takes their tables out of the admin again.
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "accounts.apps.AccountsConfig",
    "hooks.apps.HooksConfig",
    "inference.apps.InferenceConfig",
    "skippy_site.apps.SiteConfig",
    "unfold",  # makes the admin's site, so before it
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "csp",
]

# The console and admin only: /v1, /healthz and /readyz are Channels consumers outside of this.
MIDDLEWARE = [
    "skippy_site.request_ids.request_id_middleware",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "skippy_site.content_security.ContentSecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "accounts.middleware.actor_middleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "accounts.sign_in.gate.SignInGate",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "skippy_site.urls"
ASGI_APPLICATION = "skippy_site.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "skippy_site.navigation.places",
                "inference.dashboards.maintenance.banner",
            ],
            "libraries": {"figures": "inference.dashboards.template_filters"},
        },
    },
]

# Persistent connections under ASGI strand one connection for each thread that ever ran a query; the
# pool does not. Its threads give back what they take, see accounts.selectors.
DATABASES = {
    "default": {
        **environ.Env.db_url_config(SERVICES.database_url),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
    }
}
DATABASES["default"].setdefault("OPTIONS", {})
DATABASES["default"]["OPTIONS"].setdefault("connect_timeout", 5)
# Only the server has many threads that ask at once; commands and the worker have one.
if os.environ.get("SKIPPY_DATABASE_POOL") == "1":
    DATABASES["default"]["OPTIONS"].setdefault("pool", {"min_size": 0, "max_size": 10, "timeout": 2})
# Asked in this order when a user is exported or erased; his keys are revoked first.
PERSONAL_DATA_HOLDERS = [
    "accounts.account_data.KeyHolder",
    "accounts.account_data.PasswordLinkHolder",
    "accounts.account_data.AccountHolder",
    "accounts.sign_in.personal_data.SignInHolder",
    "accounts.account_data.HistoryHolder",
    "inference.usage.personal_data.EventHolder",
    "inference.alerts.personal_data.AlertHolder",
    "inference.ledger.personal_data.RecordHolder",
    "hooks.personal_data.ReplayHolder",
    "inference.ledger.personal_data.TextHolder",
    "inference.ledger.personal_data.IdempotentRequestHolder",
]

# Makes inference.model_rows.checks.ModelChecks.
MODEL_CHECKS = "skippy_site.model_rows.make_model_checks"
# Makes hooks.services.scope_directory.ScopeDirectory.
HOOK_SCOPE_DIRECTORY = "skippy_site.hook_rows.SiteScopeDirectory"
# Is a hooks.services.parameter_rules.ParameterRules.
HOOK_PARAMETER_RULES = "skippy_site.hook_parameters.site_parameter_fault"
# Makes hooks.services.trial_desk.TrialDesk.
HOOK_TRIAL_DESK = "skippy_site.hook_trial.SiteTrialDesk"
# Makes hooks.services.replay_source.ReplaySource.
HOOK_REPLAY_SOURCE = "skippy_site.hook_replay.SiteReplaySource"
# Has a worker do a task.
HOOK_TASK_SENDER = "skippy_site.celery.task_send"
# Where webhooks may be.
HOOK_WEBHOOK_HOSTS = ENVIRONMENT.allowed_webhook_hosts
# Makes hooks.services.secret_box.SecretSealer.
HOOK_SECRET_BOX = "skippy_site.hook_rows.make_secret_box"  # noqa: S105 - who keeps them

REST_FRAMEWORK = drf.REST_FRAMEWORK
UNFOLD = theme.UNFOLD
SPECTACULAR_SETTINGS = drf.SPECTACULAR_SETTINGS

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# While the database is away, keys that were read so lately go on (seconds).
ACCOUNTS_STALE_KEYS_S = ENVIRONMENT.stale_auth_s

CELERY_BROKER_URL = SERVICES.broker_url
CELERY_TASK_IGNORE_RESULT = True
CELERY_TIMEZONE = "UTC"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BEAT_SCHEDULE = {
    "sessions-clear": {"task": "accounts.tasks.sessions_clear", "schedule": timedelta(days=1)},
    "sign-in-attempts-expire": {
        "task": "accounts.tasks.sign_in_attempts_expire",
        "schedule": timedelta(hours=6),
    },
    "record-partitions-ensure": {
        "task": "inference.tasks.record_partitions_ensure",
        "schedule": timedelta(hours=6),
    },
    # What no worker took until the next one comes is not made up for: that one does its work.
    "usage-aggregate": {
        "task": "inference.usage.tasks.aggregate",
        "schedule": timedelta(minutes=1),
        "options": {"expires": 60},
    },
    "alerts-check": {
        "task": "inference.alerts.tasks.check",
        "schedule": timedelta(minutes=1),
        "options": {"expires": 60},
    },
    "usage-expire": {
        "task": "inference.usage.tasks.expire",
        "schedule": timedelta(hours=1),
        "options": {"expires": 3600},
    },
    "replays-tend": {
        "task": "hooks.tasks.replays_tend",
        "schedule": timedelta(minutes=1),
        "options": {"expires": 60},
    },
    "kept-answers-forget": {"task": "inference.tasks.kept_answers_forget", "schedule": timedelta(minutes=15)},
}

_PUBLIC_HOST = urlsplit(ENVIRONMENT.public_url).hostname
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
if ENVIRONMENT.host not in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
    ALLOWED_HOSTS.append(f"[{ENVIRONMENT.host}]" if ":" in ENVIRONMENT.host else ENVIRONMENT.host)
if _PUBLIC_HOST:
    ALLOWED_HOSTS.append(_PUBLIC_HOST)
_PUBLIC = urlsplit(ENVIRONMENT.public_url)
CSRF_TRUSTED_ORIGINS = [f"{_PUBLIC.scheme}://{_PUBLIC.netloc}"] if ENVIRONMENT.public_url else []

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = ENVIRONMENT.is_https
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_HSTS_SECONDS = 31_536_000 if ENVIRONMENT.is_https else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
# The scheme is set from X-Forwarded-Proto by skippy_site.proxies, for trusted proxies alone.
SECURE_PROXY_SSL_HEADER = None
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = content_security.POLICY
DATA_UPLOAD_MAX_MEMORY_SIZE = 2_621_440

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
vars().update(sign_in_settings(ENVIRONMENT))
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "console:usage"

if ENVIRONMENT.email_url:
    vars().update(environ.Env.email_url_config(ENVIRONMENT.email_url))
EMAIL_TIMEOUT = 10
# Links that are handed to people: whether mail may carry them, and at which address they are.
HAS_MAIL_SERVER = bool(ENVIRONMENT.email_url)
CONSOLE_PUBLIC_URL = ENVIRONMENT.public_url
_LOOPBACK = f"[{ENVIRONMENT.loopback}]" if ":" in ENVIRONMENT.loopback else ENVIRONMENT.loopback
CONSOLE_LOCAL_URL = f"http://{_LOOPBACK}:{ENVIRONMENT.port}"
INVITATION_VALID_FOR = timedelta(days=ENVIRONMENT.invitation_days)
PASSWORD_LINK_VALID_FOR = timedelta(hours=ENVIRONMENT.password_link_hours)

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True
FORMAT_MODULE_PATH = ["skippy_site.formats"]

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Served straight from the packages: no collectstatic step, nothing to forget after an upgrade.
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_AUTOREFRESH = False

LOGGING_CONFIG = "logging.config.dictConfig"
LOGGING = logging_configuration(ENVIRONMENT.log_level, log_format=ENVIRONMENT.log_format)
