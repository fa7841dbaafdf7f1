"""Settings: all of them from the environment or a `.env` file, and nonsense is refused at start."""

import secrets
import sys
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

from athena_site.environment import read_env_file, redis_url, write_whole
from athena_site.settings_api import REST_FRAMEWORK, SPECTACULAR_SETTINGS  # noqa: F401
from athena_site.settings_logging import lines
from athena_site.settings_login import *  # noqa: F403
from proxy.security.egress import Allowance

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()
read_env_file(BASE_DIR / ".env")


# Every variable that means something; a name that is not here is a slip of the pen.
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


# For others than its maker: TLS in front, and nothing weak or by default (`proxy.checks`).
PRODUCTION = _one_of("ATHENA_PRODUCTION", "0", "1") == "1"

DATA_DIR = Path(_text("ATHENA_DATA_DIR", str(BASE_DIR / "var"))).absolute()
try:
    DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
except OSError as error:
    raise ImproperlyConfigured(f"ATHENA_DATA_DIR cannot be used: {error}") from error

HOST = _text("ATHENA_HOST", "127.0.0.1")
PORT = _number("ATHENA_PORT", 8000, least=1, most=65535)
# Where a client on this machine reaches the gateway.
_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(HOST, HOST)  # noqa: S104
OWN_URL = f"http://{f'[{_HOST}]' if ':' in _HOST else _HOST}:{PORT}"
WORKERS = _number("ATHENA_WORKERS", 1, least=1, most=256)
# What may wait on disk for a database that is away, of all processes with this data directory.
SPOOL_BYTES = _number("ATHENA_SPOOL_BYTES", 512 * 2**20, least=2**20, most=2**40)
LOG_LEVEL = _one_of("ATHENA_LOG_LEVEL", "INFO", "DEBUG", "WARNING", "ERROR")
LOG_FORMAT = _one_of("ATHENA_LOG_FORMAT", "auto", "json", "text")
if LOG_FORMAT == "auto":  # text for a person, JSON for whatever collects lines
    LOG_FORMAT = "text" if sys.stderr is not None and sys.stderr.isatty() else "json"
REDIS_URL = redis_url(_text("REDIS_URL", ""))


def _trusted_proxies() -> list[str]:
    """Who may say on whose behalf a request comes, and whether it came by TLS."""
    found = [item.strip() for item in _text("ATHENA_TRUSTED_PROXIES", "").split(",")]
    try:
        return [str(ip_network(item)) for item in found if item]
    except ValueError as error:
        raise ImproperlyConfigured(f"ATHENA_TRUSTED_PROXIES: {error}") from error


def _private_upstreams() -> Allowance:
    text = _text("ATHENA_ALLOW_PRIVATE_UPSTREAMS", "none" if PRODUCTION else "all")
    try:
        return Allowance.parse(text, own=(_HOST.lower(), PORT))
    except ValueError as error:
        raise ImproperlyConfigured(f"ATHENA_ALLOW_PRIVATE_UPSTREAMS: {error}") from error


TRUSTED_PROXIES = _trusted_proxies()
PRIVATE_UPSTREAMS = _private_upstreams()
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
        if not path.exists() or not path.stat().st_size:  # empty: an older start had no room
            if PRODUCTION:  # which refuses to start without one: nothing is kept that nobody uses
                return secrets.token_urlsafe(48)
            write_whole(path, secrets.token_urlsafe(48))
        return path.read_text()
    except OSError as error:
        raise ImproperlyConfigured(f"ATHENA_DATA_DIR cannot be used: {error}") from error


SECRET_KEY = _secret_key()
DEBUG = False
LOOPBACK_HOSTS = ["127.0.0.1", "localhost", "[::1]"]
ALLOWED_HOSTS = env.list("ATHENA_ALLOWED_HOSTS", default=[]) or LOOPBACK_HOSTS

# A browser's session. Cookies are for pages alone; programs have keys and tokens.
SESSION_COOKIE_AGE = 8 * 60 * 60  # seconds without a click
SESSION_SAVE_EVERY_REQUEST = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION
CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"  # a link from a chat leads to its page
# Whether a request came by TLS is told by trusted proxies, to the server itself (`serve`): no
# header is believed here. The endpoints of clients are not redirected: a key that was sent in
# plain text has been sent.
SECURE_SSL_REDIRECT = PRODUCTION
SECURE_HSTS_SECONDS = 365 * 24 * 60 * 60 if PRODUCTION else 0
SECURE_REFERRER_POLICY = "same-origin"
CSRF_TRUSTED_ORIGINS = [
    f"https://{f'*{host}' if host.startswith('.') else host}"
    for host in ALLOWED_HOSTS
    if PRODUCTION and host != "*"
]
X_FRAME_OPTIONS = "DENY"
SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # HSTS for subdomains: the gateway speaks for its own host alone
    "security.W021",  # and a list in browsers is for a whole domain
]

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
MIDDLEWARE = [
    "proxy.security.content_security.content_security",
    "proxy.database.outage.AnswerOutage",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "proxy.database.outage.Sessions",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "simple_history.middleware.HistoryRequestMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
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
        database["OPTIONS"] = {
            # Without these, concurrent writers fail with "database is locked".
            "transaction_mode": "IMMEDIATE",
            "timeout": 5,
            # A transcript is tens of kilobytes: in larger pages (of a new file) it is fewer writes.
            # And a batch of them, 8 MiB at most, must not be written and read again on its way.
            "init_command": "PRAGMA page_size=8192; PRAGMA journal_mode=WAL;"
            " PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16384;",
        }
    else:
        database["ENGINE"] = (
            "athena_site.postgresql"  # Django's own, that waits for nothing for ever
        )
        database["OPTIONS"] = {
            "connect_timeout": 3,
            # Of a machine that has vanished: after 10 s of silence, three times in 5 s.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
            **database.get("OPTIONS", {}),
        }
    return database


DATABASES = {"default": _database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12 if PRODUCTION else 8},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "admin:login"

LANGUAGE_CODE = "en"
FORMAT_MODULE_PATH = "athena_site.locale"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
SERVESTATIC_USE_FINDERS = True  # no collectstatic step
SERVESTATIC_AUTOREFRESH = False

LOGGING = lines(level=LOG_LEVEL, formatter=LOG_FORMAT)
