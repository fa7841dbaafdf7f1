"""`manage.py doctor`: checks everything a working gateway needs and says how to fix problems."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from proxy.configuration import snapshot
from proxy.configuration.bootstrap import local_client_key
from proxy.configuration.routing import resolve
from proxy.configuration.snapshot import Snapshot
from proxy.configuration.upstream import Upstream
from proxy.database.clock import clock
from proxy.database.schema import missing_migrations, unknown_migrations
from proxy.errors import GatewayError
from proxy.models.keys import digest_of, prefix_of
from proxy.security.visible_text import visible
from proxy.serving.upstream_test import CALL, LIST, QUESTION, Problem, probe, trouble_with_calls

_NO_KEY = (
    "note   client key: no key is stored on this machine, although valid keys exist, so no tool "
    "call was tried. Set ATHENA_CLIENT_KEY to a valid key to try one."
)


class Command(BaseCommand):
    help = "Check the database, the upstreams, the client key and one streamed tool call."

    def handle(self, *args: Any, **options: Any) -> None:
        self._failed = False
        if self._step("database", check_database) and self._step("configuration", check_routes):
            self._step("clock", check_clock)
            is_up = self._step("gateway", check_gateway)
            configuration = snapshot.load()
            for upstream in _upstreams(configuration):
                if is_up or upstream.name != "demo":  # the demo is part of the gateway
                    check = partial(check_upstream, upstream, configuration)
                    self._step(f"upstream {upstream.name}", check)
            if configuration.keys and not local_client_key():
                self.stdout.write(_NO_KEY)
            elif self._step("client key", check_key) and is_up:
                self._step("streamed tool call", check_tool_call)
        if self._failed:
            raise CommandError("Problems found; they are listed above.")
        self.stdout.write("No problems found.")

    def _step(self, name: str, check: Callable[[], str]) -> bool:
        try:
            detail = check()
        except Problem as problem:
            self._failed = True
            self.stdout.write(self.style.ERROR(visible(f"ERROR  {name}: {problem}")))
            return False
        self.stdout.write(visible(f"ok     {name}: {detail}"))
        return True


def check_database() -> str:
    try:
        missing, unknown = missing_migrations(), unknown_migrations()
    except DatabaseError as error:
        raise Problem(f"not reachable ({error}). Check DATABASE_URL.") from error
    if missing:
        raise Problem(f"{len(missing)} migrations are missing. Run `manage.py migrate`.")
    if unknown:
        raise Problem(
            f"it has migrations of a newer Athena ({', '.join(unknown)}). Start that version."
        )
    return f"{connection.vendor}, all migrations applied"


def check_routes() -> str:
    try:
        configuration = snapshot.load()
    except snapshot.NotBootstrapped as error:
        raise Problem("empty. Start the gateway once with `make run`.") from error
    try:
        route = resolve(configuration, "claude-sonnet-4-5")
    except GatewayError as error:
        raise Problem(f"{error}. Add a route or choose a default route in the admin.") from error
    return (
        f"version {configuration.version}; claude-sonnet-4-5 → {route.upstream.name}:{route.model}"
    )


def check_clock() -> str:
    snapshot.read_version()
    if seconds := round(clock.skew.total_seconds()):
        raise Problem(
            f"the database's clock is {seconds:+} s off this machine's, and Athena uses the "
            "database's. Correct this machine's clock."
        )
    return "in sync with the database"


def check_upstream(upstream: Upstream, configuration: Snapshot) -> str:
    """Run the upstream test without its tool call: doctor makes one through the gateway instead."""
    passed = []
    for step in probe(upstream, configuration):
        if step.name == CALL:
            break
        if step.state == "wrong" and step.name != LIST:
            raise Problem(f"{step.name}: {step.detail}")
        passed.append(f"{step.name}: {step.detail}")
    return "; ".join(passed[-2:])


def check_key() -> str:
    key = local_client_key()
    if not key:
        raise Problem("not found. Set ATHENA_CLIENT_KEY, or create a key in the admin.")
    if digest_of(key) not in snapshot.load().keys:
        raise Problem(
            "the key stored on this machine was revoked or belongs to another database. Set "
            "ATHENA_CLIENT_KEY to a valid key."
        )
    return f"{prefix_of(key)}… is valid"


def check_gateway() -> str:
    try:
        response = httpx.get(f"{settings.OWN_URL}/readyz", timeout=5, trust_env=False)
    except httpx.TransportError as error:
        raise Problem(
            f"{settings.OWN_URL} does not answer. Start the gateway with `make run`."
        ) from error
    if response.status_code != 200:
        raise Problem(f"not ready: {response.text[:200]}")
    troubles = response.json().get("degraded") or []
    return "; ".join([f"ready at {settings.OWN_URL}", *troubles])


def check_tool_call() -> str:
    body = {**QUESTION, "model": "claude-sonnet-4-5"}
    headers = {"x-api-key": local_client_key()}
    try:
        response = httpx.post(
            f"{settings.OWN_URL}/v1/messages",
            json=body,
            headers=headers,
            timeout=120,
            trust_env=False,
        )
    except httpx.TransportError as error:
        raise Problem(f"the connection broke ({error}).") from error
    if response.status_code != 200:
        raise Problem(f"HTTP {response.status_code}: {response.json()['error']['message']}")
    events = [*_events(response.text)]
    for event in events:
        if event["type"] == "error":
            raise Problem(event["error"]["message"])
    blocks = [e["content_block"] for e in events if e["type"] == "content_block_start"]
    if trouble := trouble_with_calls(blocks):
        raise Problem(f"the model {trouble}")
    return "the model called report_health"


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.split("\n"):
        if line.startswith("data: "):
            yield json.loads(line[6:])


def _upstreams(configuration: Snapshot) -> list[Upstream]:
    rows = {row.upstream.name: row.upstream for row in configuration.routes}
    return list(rows.values())
