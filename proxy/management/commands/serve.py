"""Starts the gateway: migrations, bootstrap, a word on how to use it, and the server."""

import os
import shutil
import signal
import socket
from argparse import ArgumentParser
from typing import Any

import uvicorn
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from proxy.bootstrap import Bootstrapped, bootstrap, client_key_path
from proxy.errors import GatewayError
from proxy.metrics import DIRECTORY
from proxy.models import GatewaySettings
from proxy.routing import resolve
from proxy.snapshot import Snapshot, load

_GRACE = 10
"""Seconds that the server waits longer than the application: it ends streams without a word."""

_WORKER_PATIENCE = 30
"""Seconds that a worker may not answer its parent: on a busy machine it needs some to start, and
would be killed and started again for ever."""


class Command(BaseCommand):
    help = "Start the gateway."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-migrate", action="store_true", help="leave the database's tables")

    def handle(self, *args: Any, **options: Any) -> None:
        check_address()
        try:
            if not options["no_migrate"]:
                call_command("migrate", verbosity=0, interactive=False)
            started = bootstrap()
            drain = GatewaySettings.objects.get(pk=1).drain_time
            lines = banner(started, load())
        except DatabaseError as error:
            name = settings.DATABASES["default"]["NAME"]
            raise CommandError(f"the database {name} cannot be used: {error}") from error
        if settings.WORKERS > 1:
            share_metrics()
        self.stdout.write(lines)
        self.stdout.flush()  # a log file must have it at once: the password is shown only now
        # The server raises a signal again when it has ended: that is not an error.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        uvicorn.run(
            "athena_site.asgi:application",
            host=settings.HOST,
            port=settings.PORT,
            workers=settings.WORKERS,
            loop="uvloop",
            http="httptools",
            lifespan="on",
            access_log=False,
            log_config=None,  # that of the settings has its loggers, too
            server_header=False,
            timeout_keep_alive=75,
            timeout_worker_healthcheck=_WORKER_PATIENCE,
            timeout_graceful_shutdown=int(drain) + _GRACE,
        )
        self.stdout.write("Athena has stopped.")


def check_address() -> None:
    """Find out that nobody can listen there before anything is said."""
    try:
        found = socket.getaddrinfo(settings.HOST, settings.PORT, type=socket.SOCK_STREAM)
        with socket.socket(found[0][0], socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(found[0][4])
    except OSError as error:
        raise CommandError(
            f"cannot listen on {settings.HOST} port {settings.PORT}: {error.strerror or error}. "
            "ATHENA_HOST and ATHENA_PORT choose another address."
        ) from error


def share_metrics() -> None:
    """Give the workers an empty directory to count in; they inherit its name."""
    path = settings.DATA_DIR / f"metrics-{settings.PORT}"
    try:
        if path.exists():
            shutil.rmtree(path)
        path.mkdir()
    except OSError as error:
        raise CommandError(f"the directory for metrics cannot be used: {error}") from error
    os.environ[DIRECTORY] = str(path)


def banner(started: Bootstrapped, snapshot: Snapshot) -> str:
    """What a person needs to know to use it."""
    url, path = settings.OWN_URL, client_key_path()
    shown_key = f'"$(cat {path})"' if path.exists() else '"$ATHENA_CLIENT_KEY"'
    is_open = settings.HOST in ("0.0.0.0", "::")  # noqa: S104
    lines = ["", f"Athena listens on {url}{', and on every other address' if is_open else ''}", ""]
    for name in ("claude-opus", "claude-sonnet", "claude-haiku", "any other name"):
        try:
            route = resolve(snapshot, name)
        except GatewayError as error:
            lines.append(f"  {name:<15} {error}")
        else:
            lines.append(f"  {name:<15} → {route.upstream.name}: {route.model}")
    if any(row.upstream.name == "demo" for row in snapshot.routes):
        lines += [
            "",
            "  demo is the built-in demo model: a script that calls your tools.",
            "  Set OPENROUTER_API_KEY and start again to use real models.",
        ]
    lines += [f"  Warning: {warning}" for warning in warnings()]
    lines += [
        "",
        "  Claude Code, in another terminal:",
        "",
        f"    export ANTHROPIC_BASE_URL={url}",
        f"    export ANTHROPIC_AUTH_TOKEN={shown_key}",
        "    claude",
        "",
        f"  Admin: {url}/admin/  user {started.admin_user}",
    ]
    if started.admin_password:
        lines.append(f"         password {started.admin_password}   (shown only now)")
    if started.client_key:
        lines.append(f"  Client key, also in {path}: {started.client_key}")
    return "\n".join([*lines, ""])


def warnings() -> list[str]:
    """What is likely a slip, but no reason not to start."""
    given = {name for name in os.environ if name.startswith("ATHENA_")}
    found = [
        f"{n} is set, but is no setting of Athena's." for n in sorted(given - settings.VARIABLES)
    ]
    if password := os.environ.get("ATHENA_ADMIN_PASSWORD"):
        try:
            validate_password(password)
        except ValidationError as error:
            found.append(f"ATHENA_ADMIN_PASSWORD is weak. {' '.join(error.messages)}")
    return found
