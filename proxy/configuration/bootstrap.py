"""The environment → the first rows.

The environment bootstraps, the database is the truth afterwards. A row that came from the
environment follows it at every start, until an operator edits it; then it is the operator's.
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.db import models, transaction

from formats import FORMATS
from proxy.configuration.upstream import DEMO_URL, demo_key
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

_Row = TypeVar("_Row", bound=models.Model)

_MODELS = {
    "ATHENA_MODEL_OPUS": "deepseek/deepseek-v3.2",
    "ATHENA_MODEL_SONNET": "moonshotai/kimi-k2.5",
    "ATHENA_MODEL_HAIKU": "qwen/qwen3-coder",
    "ATHENA_MODEL_DEFAULT": "moonshotai/kimi-k2.5",
}


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """What a person must be told after a start."""

    upstream: str
    client_key: str | None
    """A key that was just made, to be shown once."""
    admin_user: str
    admin_password: str | None
    unreadable: tuple[str, ...] = ()
    """Upstreams whose secrets were stored with another ATHENA_SECRET_KEY."""


def client_key_path() -> Path:
    return Path(settings.DATA_DIR) / "client_key"


def local_client_key() -> str:
    """The key for clients on this machine; empty when none is known."""
    path = client_key_path()
    return os.environ.get("ATHENA_CLIENT_KEY") or (
        path.read_text().strip() if path.exists() else ""
    )


@transaction.atomic
def bootstrap(environment: Mapping[str, str] = os.environ) -> Bootstrapped:
    """Make or update the rows that follow the environment; raises ImproperlyConfigured."""
    for name in ("OPENROUTER_API_KEY", "ATHENA_ANTHROPIC_API_KEY", *_MODELS):
        value = environment.get(name, "")
        if value and (not value.isprintable() or " " in value):
            raise ImproperlyConfigured(f"{name} must not contain spaces or control characters")
    # Two nodes may start at once: the row is a lock.
    ConfigurationVersion.objects.get_or_create(pk=1)
    ConfigurationVersion.objects.select_for_update().get(pk=1)
    unreadable = tuple(row.name for row in Upstream.objects.all() if not row.is_readable())
    upstream = _upstreams(environment)
    _routes(environment, upstream)
    for name in FORMATS:
        FormatSettings.objects.get_or_create(format=name)
    user, password = _admin(environment)
    return Bootstrapped(upstream.name, _client_key(environment), user, password, unreadable)


def _upstreams(environment: Mapping[str, str]) -> Upstream:
    """All upstreams of the environment; the one that routes lead to is returned."""
    found: list[Upstream] = []
    if environment.get("OPENROUTER_API_KEY"):
        url = environment.get("OPENROUTER_BASE_URL") or "https://openrouter.ai/api/v1"
        fields: dict[str, Any] = {
            "service": Service.OPENROUTER,
            "dialect": "openai",
            "base_url": url,
            "key_variable": "OPENROUTER_API_KEY",
            "active": True,
        }
        found.append(
            _follow(Upstream, {"name": "openrouter"}, fields, variable="OPENROUTER_BASE_URL")
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
        found.append(
            _follow(Upstream, {"name": "anthropic"}, fields, variable="ATHENA_ANTHROPIC_BASE_URL")
        )
    fields = {"base_url": DEMO_URL, "active": not found}
    demo = _follow(Upstream, {"name": "demo"}, fields, variable="ATHENA_HOST")
    if demo.base_url != DEMO_URL:  # wherever it was, it is part of this gateway
        demo.base_url = DEMO_URL
        demo.save(update_fields=["base_url"])
    if demo.from_environment and not (demo.sealed_key and demo.is_readable()):
        demo.store_key(demo_key())
        demo.save(update_fields=["sealed_key"])
    return found[0] if found else demo


def _routes(environment: Mapping[str, str], upstream: Upstream) -> None:
    names = {name: environment.get(name) or default for name, default in _MODELS.items()}
    is_anthropic = upstream.service == Service.ANTHROPIC
    for family in ("opus", "sonnet", "haiku"):
        variable = f"ATHENA_MODEL_{family.upper()}"
        # Anthropic knows its own names; another model is sent there only if somebody says so.
        model = environment.get(variable, "") if is_anthropic else names[variable]
        fields = {"upstream": upstream, "upstream_model": model, "listed_as": f"claude-{family}"}
        _follow(ModelRoute, {"pattern": f"claude-*{family}*"}, fields, variable=variable)
    variable = "ATHENA_MODEL_DEFAULT"
    model = environment.get(variable, "") if is_anthropic else names[variable]
    fields = {"upstream": upstream, "upstream_model": model}
    default = _follow(ModelRoute, {"pattern": "default"}, fields, variable=variable)
    gateway, _ = GatewaySettings.objects.get_or_create(pk=1)
    if gateway.default_route is None:
        gateway.default_route = default
        gateway.save(update_fields=["default_route"])


def _follow(
    model: type[_Row], identity: dict[str, Any], fields: dict[str, Any], *, variable: str
) -> _Row:
    """The row, made or brought up to the environment; one that an operator edited stays.

    `variable` is the one to blame when the row cannot be saved.
    """
    row = model._default_manager.filter(**identity).first()
    if row is None:
        row = model(**identity, **fields, from_environment=True)
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
    row.save()
    return row


def _client_key(environment: Mapping[str, str]) -> str | None:
    """A key that was just made, if one was."""
    path = client_key_path()
    given = environment.get("ATHENA_CLIENT_KEY")
    key = given or (path.read_text().strip() if path.exists() else "")
    if key and ClientKey.objects.filter(digest=digest_of(key)).exists():
        return None
    if not key and ClientKey.objects.exists():
        return None
    row = ClientKey.objects.filter(from_environment=True).first() if given else None
    row = row or ClientKey(label="environment" if given else "first", from_environment=bool(given))
    made = key or new_key()
    try:
        row.adopt(made)
    except ValidationError as error:
        raise ImproperlyConfigured(f"ATHENA_CLIENT_KEY: {'; '.join(error.messages)}") from error
    row.save()
    if given:
        return None
    path.touch(mode=0o600)
    path.write_text(made)
    return None if key else made


def _admin(environment: Mapping[str, str]) -> tuple[str, str | None]:
    """The first administrator, and the password if it was just made."""
    users = get_user_model()._default_manager
    name = environment.get("ATHENA_ADMIN_USER") or "admin"
    if users.filter(is_superuser=True).exists():
        return name, None
    given = environment.get("ATHENA_ADMIN_PASSWORD")
    password = given or secrets.token_urlsafe(12)
    users.create_superuser(name, "", password)
    return name, None if given else password
