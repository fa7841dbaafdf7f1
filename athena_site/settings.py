"""Django settings, read from the environment or a `.env` file; an invalid value stops the start.

`docs/settings.md` documents the variables. Related groups are in `settings_login`, `settings_api`
and `settings_logging`.
"""

import re
import secrets
import sys
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

from athena_site.environment import read_env_file, redis_url
from athena_site.settings_api import REST_FRAMEWORK, SPECTACULAR_SETTINGS  # noqa: F401
from athena_site.settings_logging import logging_settings
from athena_site.settings_login import *  # noqa: F403
from proxy.security.egress import EgressPolicy
from proxy.security.private_file import write_private_file

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()
read_env_file(BASE_DIR / ".env")

# All ATHENA_ variables. `serve` rejects any other, which is probably a typo. A name that a release
# gives up stays here for one more release, so that a shared environment still starts both.
VARIABLES = frozenset(
    {
        "ATHENA_ADMIN_PASSWORD",
        "ATHENA_ADMIN_USER",
        "ATHENA_ALLOWED_HOSTS",
        "ATHENA_ALLOW_PRIVATE_UPSTREAMS",
        "ATHENA_ANTHROPIC_API_KEY",
        "ATHENA_ANTHROPIC_BASE_URL",
        "ATHENA_CLIENT_KEY",
        "ATHENA_DATA_DIR",
        "ATHENA_HOST",
        "ATHENA_KEY_VARIABLES",
        "ATHENA_LOG_FORMAT",
        "ATHENA_LOG_LEVEL",
        "ATHENA_METRICS_TOKEN",
        "ATHENA_MODEL_DEFAULT",
        "ATHENA_MODEL_HAIKU",
        "ATHENA_MODEL_OPUS",
        "ATHENA_MODEL_SONNET",
        "ATHENA_PORT",
        "ATHENA_PRODUCTION",
        "ATHENA_SECRET_KEY",
        "ATHENA_SPOOL_BYTES",
        "ATHENA_TRANSPORT",
        "ATHENA_TRUSTED_PROXIES",
        "ATHENA_WORKERS",
    }
)


def _text(name: str, default: str) -> str:
    """Return a variable's value; an empty value counts as unset."""
    return env.str(name, default="") or default


def _number(name: str, default: int, *, minimum: int, maximum: int) -> int:
    text = _text(name, str(default))
    if not (text.isascii() and text.isdigit() and minimum <= int(text) <= maximum):
        raise ImproperlyConfigured(
            f"{name} must be a number from {minimum} to {maximum}, not {text!r}"
        )
    return int(text)


def _one_of(name: str, *choices: str) -> str:
    """Return a variable's value, which must be one of the choices; the first is the default."""
    text = _text(name, choices[0])
    if text not in choices:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}, not {text!r}")
    return text


# Production mode: requires TLS in front and rejects weak or default settings (`proxy.checks`).
PRODUCTION = _one_of("ATHENA_PRODUCTION", "0", "1") == "1"

# Directory for the SQLite database, the secret key, the first client key and the journal.
DATA_DIR = Path(_text("ATHENA_DATA_DIR", str(BASE_DIR / "var"))).absolute()
try:
    DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
except OSError as error:
    raise ImproperlyConfigured(f"ATHENA_DATA_DIR cannot be used: {error}") from error

# Address and port that the server listens on.
HOST = _text("ATHENA_HOST", "127.0.0.1")
PORT = _number("ATHENA_PORT", 8000, minimum=1, maximum=65535)
# URL of the gateway for clients on this machine.
_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(HOST, HOST)  # noqa: S104
OWN_URL = f"http://{f'[{_HOST}]' if ':' in _HOST else _HOST}:{PORT}"
# Number of server processes.
WORKERS = _number("ATHENA_WORKERS", 1, minimum=1, maximum=256)
# Disk space for exchanges waiting for the database, over all processes with this data directory.
SPOOL_BYTES = _number("ATHENA_SPOOL_BYTES", 512 * 2**20, minimum=2**20, maximum=2**40)
# Level of the gateway's own log lines.
LOG_LEVEL = _one_of("ATHENA_LOG_LEVEL", "INFO", "DEBUG", "WARNING", "ERROR")
# Log format: text for a terminal, JSON for log collectors.
LOG_FORMAT = _one_of("ATHENA_LOG_FORMAT", "auto", "json", "text")
if LOG_FORMAT == "auto":
    LOG_FORMAT = "text" if sys.stderr is not None and sys.stderr.isatty() else "json"
# Redis server that shares request rates between processes; empty: each process counts alone.
REDIS_URL = redis_url(_text("REDIS_URL", ""))


def _trusted_proxies() -> list[str]:
    items = [item.strip() for item in _text("ATHENA_TRUSTED_PROXIES", "").split(",")]
    try:
        return [str(ip_network(item)) for item in items if item]
    except ValueError as error:
        raise ImproperlyConfigured(f"ATHENA_TRUSTED_PROXIES: {error}") from error


def _key_variables() -> tuple[str, ...]:
    items = [item.strip() for item in _text("ATHENA_KEY_VARIABLES", "*_API_KEY").split(",")]
    for item in items:
        if not re.fullmatch(r"[A-Z_*][A-Z0-9_*]*", item):
            raise ImproperlyConfigured(
                f"ATHENA_KEY_VARIABLES: {item!r} is not the name of a variable, or a pattern with *"
            )
    return tuple(items)


def _private_upstreams() -> EgressPolicy:
    text = _text("ATHENA_ALLOW_PRIVATE_UPSTREAMS", "none" if PRODUCTION else "all")
    try:
        return EgressPolicy.parse(text, own=(_HOST.lower(), PORT))
    except ValueError as error:
        raise ImproperlyConfigured(f"ATHENA_ALLOW_PRIVATE_UPSTREAMS: {error}") from error


# Networks whose forwarding headers (client address, TLS) are believed.
TRUSTED_PROXIES = _trusted_proxies()
# Private addresses that upstreams may have.
PRIVATE_UPSTREAMS = _private_upstreams()
# Names or patterns of the environment variables that may hold the key of an upstream.
KEY_VARIABLES = _key_variables()
# HTTP client for upstreams: the gateway's own, or httpx.
UPSTREAM_TRANSPORT = _one_of("ATHENA_TRANSPORT", "athena", "httpx")


def _metrics_token() -> str:
    token = _text("ATHENA_METRICS_TOKEN", "")
    if token and (len(token) < 16 or not token.isascii() or any(c.isspace() for c in token)):
        raise ImproperlyConfigured(
            "ATHENA_METRICS_TOKEN must have at least 16 ASCII characters and no space"
        )
    return token


# Token with which scrapers on other machines read /metrics; empty: only this machine may.
METRICS_TOKEN = _metrics_token()


def _secret_key() -> str:
    """Return the configured secret, or one generated once and kept in the data directory."""
    if configured := env.str("ATHENA_SECRET_KEY", default=""):
        if len(configured) < 32:
            raise ImproperlyConfigured("ATHENA_SECRET_KEY must have at least 32 characters")
        return str(configured)
    path = DATA_DIR / "secret_key"
    try:
        if not path.exists() or not path.stat().st_size:  # empty if the disk was full
            if PRODUCTION:  # `proxy.checks` stops the start; leave no unused key behind
                return secrets.token_urlsafe(48)
            write_private_file(path, secrets.token_urlsafe(48))
        return path.read_text()
    except OSError as error:
        raise ImproperlyConfigured(f"ATHENA_DATA_DIR cannot be used: {error}") from error


# Signs sessions and encrypts stored upstream keys.
SECRET_KEY = _secret_key()
# Always off: debug pages show settings and source code.
DEBUG = False
# Host names that pages are served under.
LOOPBACK_HOSTS = ["127.0.0.1", "localhost", "[::1]"]
ALLOWED_HOSTS = env.list("ATHENA_ALLOWED_HOSTS", default=[]) or LOOPBACK_HOSTS

# Browser sessions. Only pages use cookies; programs use keys and tokens.
SESSION_COOKIE_AGE = 8 * 60 * 60  # seconds without a request
SESSION_SAVE_EVERY_REQUEST = True  # each request restarts the time
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION  # cookies over HTTPS only
CSRF_COOKIE_HTTPONLY = True  # scripts do not read it
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"  # links from chats keep the login
# Redirects pages to HTTPS. The server itself evaluates the headers of trusted proxies (`serve`), so
# Django reads none. Client endpoints are not redirected: the key has already been sent unencrypted.
SECURE_SSL_REDIRECT = PRODUCTION
# Tells browsers to use HTTPS for a year.
SECURE_HSTS_SECONDS = 365 * 24 * 60 * 60 if PRODUCTION else 0
SECURE_REFERRER_POLICY = "same-origin"  # page URLs are not sent to other sites
# Origins whose forms are accepted behind a TLS proxy.
CSRF_TRUSTED_ORIGINS = [
    f"https://{f'*{host}' if host.startswith('.') else host}"
    for host in ALLOWED_HOSTS
    if PRODUCTION and host != "*"
]
X_FRAME_OPTIONS = "DENY"  # no other site may embed a page
SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # HSTS for subdomains: the gateway decides for its own host only
    "security.W021",  # HSTS preloading covers a whole domain
]

# Django apps; servestatic comes before staticfiles to serve static files itself.
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "servestatic",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "simple_history",
    "axes",
    "proxy",
]
# Middleware for pages and the management API; gateway paths do not pass through it.
MIDDLEWARE = [
    "proxy.security.content_security.content_security",
    "proxy.database.outage.OutageMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "proxy.database.outage.OutageSessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "simple_history.middleware.HistoryRequestMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]
# Entry points and templates.
ROOT_URLCONF = "athena_site.urls"
ASGI_APPLICATION = "athena_site.asgi.application"
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
            ],
        },
    },
]


def _database() -> dict[str, Any]:
    url = _text("DATABASE_URL", f"sqlite:///{DATA_DIR / 'athena.sqlite3'}")
    try:
        database: dict[str, Any] = env.db_url_config(url)
    except ValueError as error:
        raise ImproperlyConfigured("DATABASE_URL is not a URL") from error
    kind = database.get("ENGINE", "").rpartition(".")[2]
    if kind not in ("sqlite3", "postgresql"):  # the URL may contain a password, so it is not shown
        raise ImproperlyConfigured("DATABASE_URL must start with postgres:// or sqlite://")
    if kind == "sqlite3":
        database["OPTIONS"] = {
            # Without these, concurrent writers fail with "database is locked".
            "transaction_mode": "IMMEDIATE",
            "timeout": 5,
            # A transcript has tens of kilobytes, so larger pages (of a new file) need fewer
            # writes. The cache holds a whole batch of transcripts, 8 MiB at most.
            "init_command": "PRAGMA page_size=8192; PRAGMA journal_mode=WAL;"
            " PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16384;",
        }
    else:
        database["ENGINE"] = "athena_site.postgresql"  # Django's backend plus timeouts
        database["OPTIONS"] = {
            "connect_timeout": 3,
            # Detects a machine that disappeared: after 10 s of silence, three probes 5 s apart.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
            **database.get("OPTIONS", {}),
        }
    return database


# SQLite in the data directory, or PostgreSQL.
DATABASES = {"default": _database()}
# Type of primary keys.
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# Hash for staff passwords; PBKDF2 reads older hashes.
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
# Rules for staff passwords.
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12 if PRODUCTION else 8},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# Page for users who are not logged in.
LOGIN_URL = "admin:login"

# Language, date formats and time zone of the pages.
LANGUAGE_CODE = "en"
FORMAT_MODULE_PATH = "athena_site.locale"
TIME_ZONE = "UTC"
USE_TZ = True
# Static files, served from the apps' own folders.
STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
SERVESTATIC_USE_FINDERS = True  # no collectstatic step
SERVESTATIC_AUTOREFRESH = False  # files do not change while the server runs

# Log lines as JSON or text on stderr.
LOGGING = logging_settings(level=LOG_LEVEL, formatter=LOG_FORMAT)
