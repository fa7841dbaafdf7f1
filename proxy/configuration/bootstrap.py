"""Creates the first rows of the configuration from environment variables.

The database is authoritative: the environment only provides the first values. A row that was
created from the environment follows it at every start, until an operator edits the row.
"""

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.db import models, transaction

from formats import FORMATS
from proxy.configuration.editing import editing, store
from proxy.configuration.upstream import DEMO_NAME, DEMO_URL, demo_key
from proxy.models import (
    ClientKey,
    ConfigurationVersion,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Service,
    Upstream,
)
from proxy.models.keys import digest_of, new_key
from proxy.security.vault import seal

_Row = TypeVar("_Row", bound=models.Model)

_DEFAULT_MODELS = {
    "ATHENA_MODEL_OPUS": "deepseek/deepseek-v3.2",
    "ATHENA_MODEL_SONNET": "moonshotai/kimi-k2.5",
    "ATHENA_MODEL_HAIKU": "qwen/qwen3-coder",
    "ATHENA_MODEL_DEFAULT": "moonshotai/kimi-k2.5",
}


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """The values to print after a start."""

    upstream: str
    client_key: str | None
    """A key that was just created, to be shown once."""
    admin_user: str
    admin_password: str | None
    """The administrator's password, if it was just generated."""
    unreadable: tuple[str, ...] = ()
    """Upstreams whose secrets were encrypted with another ATHENA_SECRET_KEY."""


def client_key_path() -> Path:
    return Path(settings.DATA_DIR) / "client_key"


def local_client_key() -> str:
    """The key for clients on this machine; empty if there is none."""
    path = client_key_path()
    return os.environ.get("ATHENA_CLIENT_KEY") or (
        path.read_text().strip() if path.exists() else ""
    )


@transaction.atomic
def bootstrap(environment: Mapping[str, str] = os.environ) -> Bootstrapped:
    """Create or update the rows that follow the environment; raises ImproperlyConfigured."""
    for name in ("OPENROUTER_API_KEY", "ATHENA_ANTHROPIC_API_KEY", *_DEFAULT_MODELS):
        value = environment.get(name, "")
        if value and (not value.isprintable() or " " in value):
            raise ImproperlyConfigured(f"{name} must not contain spaces or control characters")
    ConfigurationVersion.objects.get_or_create(pk=1)
    with editing():  # two nodes may start at the same time
        unreadable = tuple(
            row.name for row in Upstream.objects.exclude(name=DEMO_NAME) if not row.is_readable()
        )
        upstream = _upstreams(environment)
        _routes(environment, upstream)
        for name in FORMATS:
            FormatSettings.objects.get_or_create(format=name)
        admin, password = _admin(environment)
        key = _client_key(environment, owner=admin)
        return Bootstrapped(upstream.name, key, admin.get_username(), password, unreadable)


def _upstreams(environment: Mapping[str, str]) -> Upstream:
    """Create or update the upstreams; returns the one that the routes use."""
    configured: list[Upstream] = []
    if environment.get("OPENROUTER_API_KEY"):
        url = environment.get("OPENROUTER_BASE_URL") or "https://openrouter.ai/api/v1"
        fields: dict[str, Any] = {
            "service": Service.OPENROUTER,
            "dialect": "openai",
            "base_url": url,
            "key_variable": "OPENROUTER_API_KEY",
            "active": True,
        }
        configured.append(
            _sync(Upstream, {"name": "openrouter"}, fields, variable="OPENROUTER_BASE_URL")
        )
    if environment.get("ATHENA_ANTHROPIC_API_KEY"):
        url = environment.get("ATHENA_ANTHROPIC_BASE_URL") or "https://api.anthropic.com"
        fields = {
            "service": Service.ANTHROPIC,
            "dialect": "anthropic",
            "base_url": url,
            "key_variable": "ATHENA_ANTHROPIC_API_KEY",
            "active": True,
        }
        configured.append(
            _sync(Upstream, {"name": "anthropic"}, fields, variable="ATHENA_ANTHROPIC_BASE_URL")
        )
    # The address and the key of an existing row stay as they are: an older node may need them.
    fields = {"active": not configured}
    demo = _sync(Upstream, {"name": DEMO_NAME}, fields, new=_new_demo, variable="ATHENA_HOST")
    return configured[0] if configured else demo


def _new_demo() -> dict[str, Any]:
    return {"base_url": DEMO_URL, "sealed_key": seal(demo_key())}


def _routes(environment: Mapping[str, str], upstream: Upstream) -> None:
    names = {name: environment.get(name) or model for name, model in _DEFAULT_MODELS.items()}
    is_anthropic = upstream.service == Service.ANTHROPIC
    for family in ("opus", "sonnet", "haiku"):
        variable = f"ATHENA_MODEL_{family.upper()}"
        # Anthropic knows the clients' names; another name is sent only if a variable gives one.
        model = environment.get(variable, "") if is_anthropic else names[variable]
        fields = {"upstream": upstream, "upstream_model": model, "listed_as": f"claude-{family}"}
        _sync(ModelRoute, {"pattern": f"claude-*{family}*"}, fields, variable=variable)
    variable = "ATHENA_MODEL_DEFAULT"
    model = environment.get(variable, "") if is_anthropic else names[variable]
    fields = {"upstream": upstream, "upstream_model": model}
    default = _sync(ModelRoute, {"pattern": "default"}, fields, variable=variable)
    gateway, _ = GatewaySettings.objects.get_or_create(pk=1)
    if gateway.default_route is None:
        gateway.default_route = default
        store(gateway, fields=["default_route"], by_operator=False)


def _sync(
    model: type[_Row],
    identity: dict[str, Any],
    fields: dict[str, Any],
    *,
    variable: str,
    new: Callable[[], dict[str, Any]] = dict,
) -> _Row:
    """Create the row or update it from the environment; an edited row stays unchanged.

    `new` makes the values that only a new row gets. `variable` is the environment variable to name
    if the row is not valid.
    """
    row = model._default_manager.filter(**identity).first()
    if row is None:
        row = model(**identity, **fields, **new(), from_environment=True)
    else:
        same = all(getattr(row, name) == value for name, value in fields.items())
        if same or not row.from_environment:  # type: ignore[attr-defined]
            return row
    for name, value in fields.items():
        setattr(row, name, value)
    try:
        row.full_clean()
    except ValidationError as error:
        raise ImproperlyConfigured(f"{variable}: {'; '.join(error.messages)}") from error
    store(row, by_operator=False)
    return row


def _client_key(environment: Mapping[str, str], *, owner: User) -> str | None:
    """Create or update the first client key; returns the key if it was just generated.

    It belongs to the administrator, whose *Usage* page would be empty otherwise.
    """
    path = client_key_path()
    given = environment.get("ATHENA_CLIENT_KEY")
    key = given or (path.read_text().strip() if path.exists() else "")
    if key and ClientKey.objects.filter(digest=digest_of(key)).exists():
        return None
    if not key and ClientKey.objects.exists():
        return None
    row = ClientKey.objects.filter(from_environment=True).first() if given else None
    row = row or ClientKey(
        label="environment" if given else "first", owner=owner, from_environment=bool(given)
    )
    plain = key or new_key()
    try:
        row.adopt(plain)
    except ValidationError as error:
        raise ImproperlyConfigured(f"ATHENA_CLIENT_KEY: {'; '.join(error.messages)}") from error
    store(row, by_operator=False)
    if given:
        return None
    path.touch(mode=0o600)
    path.write_text(plain)
    return None if key else plain


def _admin(environment: Mapping[str, str]) -> tuple[User, str | None]:
    """Return the first administrator, and the password if both were just created."""
    users = get_user_model()._default_manager
    existing = users.filter(is_superuser=True).order_by("-is_active", "pk").first()
    if existing is not None:
        return existing, None
    name = environment.get("ATHENA_ADMIN_USER") or "admin"
    given = environment.get("ATHENA_ADMIN_PASSWORD")
    password = given or secrets.token_urlsafe(12)
    return users.create_superuser(name, "", password), None if given else password
