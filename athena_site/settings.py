"""Settings: all of them from the environment or a `.env` file, and nonsense is refused at start."""

import re
import secrets
import sys
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent

_LINE = re.compile(r"\s*(?:#.*|(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*=.*)?")


def _read_env_file(path: Path) -> None:
    """Take a `.env` file into the environment; a line that is none of its kind is refused."""
    if path.exists():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not _LINE.fullmatch(line):
                raise ImproperlyConfigured(f"line {number} of .env is not NAME=value: {line!r}")
        environ.Env.read_env(path, parse_comments=True)


env = environ.Env()
_read_env_file(BASE_DIR / ".env")


# Every variable that means something; a name that is not here is a slip of the pen.
VARIABLES = frozenset(
    {
        "ATHENA_ADMIN_PASSWORD",
        "ATHENA_ADMIN_USER",
        "ATHENA_ALLOWED_HOSTS",
        "ATHENA_ANTHROPIC_API_KEY",
        "ATHENA_ANTHROPIC_BASE_URL",
        "ATHENA_CLIENT_KEY",
        "ATHENA_DATA_DIR",
        "ATHENA_HOST",
        "ATHENA_LOG_FORMAT",
        "ATHENA_LOG_LEVEL",
        "ATHENA_METRICS_TOKEN",
        "ATHENA_MODEL_DEFAULT",
        "ATHENA_MODEL_HAIKU",
        "ATHENA_MODEL_OPUS",
        "ATHENA_MODEL_SONNET",
        "ATHENA_PORT",
        "ATHENA_SECRET_KEY",
        "ATHENA_TRANSPORT",
        "ATHENA_WORKERS",
    }
)


def _text(name: str, default: str) -> str:
    """A variable's value; an empty one is as good as none."""
    return env.str(name, default="") or default


def _number(name: str, default: int, *, least: int, most: int) -> int:
    text = _text(name, str(default))
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise ImproperlyConfigured(f"{name} must be a number from {least} to {most}, not {text!r}")
    return int(text)


def _one_of(name: str, *choices: str) -> str:
    """One of the choices; the first is the default."""
    text = _text(name, choices[0])
    if text not in choices:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}, not {text!r}")
    return text


DATA_DIR = Path(_text("ATHENA_DATA_DIR", str(BASE_DIR / "var"))).absolute()
try:
    DATA_DIR.mkdir(parents=True, exist_ok=True)
except OSError as error:
    raise ImproperlyConfigured(f"ATHENA_DATA_DIR cannot be used: {error}") from error

HOST = _text("ATHENA_HOST", "127.0.0.1")
PORT = _number("ATHENA_PORT", 8000, least=1, most=65535)
# Where a client on this machine reaches the gateway.
_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(HOST, HOST)  # noqa: S104
OWN_URL = f"http://{f'[{_HOST}]' if ':' in _HOST else _HOST}:{PORT}"
WORKERS = _number("ATHENA_WORKERS", 1, least=1, most=256)
LOG_LEVEL = _one_of("ATHENA_LOG_LEVEL", "INFO", "DEBUG", "WARNING", "ERROR")
LOG_FORMAT = _one_of("ATHENA_LOG_FORMAT", "auto", "json", "text")
if LOG_FORMAT == "auto":  # text for a person, JSON for whatever collects lines
    LOG_FORMAT = "text" if sys.stderr is not None and sys.stderr.isatty() else "json"
UPSTREAM_TRANSPORT = _one_of("ATHENA_TRANSPORT", "athena", "httpx")


def _metrics_token() -> str:
    """What a scraper from elsewhere must know; without it, none can read the metrics."""
    token = _text("ATHENA_METRICS_TOKEN", "")
    if token and (len(token) < 16 or not token.isascii() or any(c.isspace() for c in token)):
        raise ImproperlyConfigured(
            "ATHENA_METRICS_TOKEN must have at least 16 ASCII characters and no space"
        )
    return token


METRICS_TOKEN = _metrics_token()


def _secret_key() -> str:
    """The configured secret, or one that is made once and kept in the data directory."""
    if configured := env.str("ATHENA_SECRET_KEY", default=""):
        if len(configured) < 32:
            raise ImproperlyConfigured("ATHENA_SECRET_KEY must have at least 32 characters")
        return str(configured)
    path = DATA_DIR / "secret_key"
    try:
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_urlsafe(48))
        return path.read_text()
    except OSError as error:
        raise ImproperlyConfigured(f"ATHENA_DATA_DIR cannot be used: {error}") from error


SECRET_KEY = _secret_key()
DEBUG = False
ALLOWED_HOSTS = env.list("ATHENA_ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])

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
    "proxy",
]
MIDDLEWARE = [
    "proxy.middleware.content_security",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "simple_history.middleware.HistoryRequestMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
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
    if kind not in ("sqlite3", "postgresql"):  # the URL is not shown: it may have a password
        raise ImproperlyConfigured("DATABASE_URL must begin with postgres:// or sqlite://")
    if kind == "sqlite3":
        # Without these, concurrent writers fail with "database is locked".
        database["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 5,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        }
    return database


DATABASES = {"default": _database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "admin:login"

# The management API alone; the gateway's own endpoints know nothing of it.
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "proxy.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["proxy.api.authentication.Denied"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["proxy.api.parsing.PlainJson"],
    "DEFAULT_THROTTLE_CLASSES": [
        "rest_framework.throttling.AnonRateThrottle",
        "rest_framework.throttling.UserRateThrottle",
    ],
    # Counted by each process for itself.
    "DEFAULT_THROTTLE_RATES": {"anon": "60/min", "user": "600/min", "replay": "60/min"},
    "NUM_PROXIES": 0,
    "URL_FORMAT_OVERRIDE": None,  # `format` is a filter
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "proxy.api.errors.answer",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Athena's management API",
    "DESCRIPTION": "Exchanges, transcripts, replays and groups of failures; and what steers the "
    "gateway: upstreams, routes, formats, keys.",
    "VERSION": "0.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api",
    "ENUM_NAME_OVERRIDES": {
        "Phase": "proxy.models.Phase",
        "GroupState": "proxy.models.GroupState",
        "SettableState": "proxy.api.serializers.SETTABLE",
        "Service": "proxy.models.Service",
        "Reasoning": "proxy.models.Reasoning",
        "Dialect": "proxy.models.upstreams.dialect_choices",
        "Format": "proxy.models.formats.format_choices",
        "KeyState": "proxy.models.KeyState",
        "ChangeKind": "proxy.api.configuration_out.CHANGE_KINDS",
        "FormatReason": "proxy.api.configuration_out.FORMAT_REASONS",
    },
    "ENABLE_DJANGO_DEPLOY_CHECK": False,
}

LANGUAGE_CODE = "en"
FORMAT_MODULE_PATH = "athena_site.locale"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
SERVESTATIC_USE_FINDERS = True  # no collectstatic step
SERVESTATIC_AUTOREFRESH = False

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {"()": "proxy.logs.JSONFormatter"},
        "text": {"()": "proxy.logs.TextFormatter"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "athena": {"handlers": ["console"], "level": LOG_LEVEL, "propagate": False},
        "django": {"handlers": ["console"], "level": "WARNING", "propagate": False},
        "uvicorn": {"handlers": ["console"], "level": "WARNING", "propagate": False},
        # Anybody can send a strange host name; it is answered with 400 and no more.
        "django.security.DisallowedHost": {"handlers": [], "propagate": False},
    },
}
