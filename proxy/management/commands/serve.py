"""Starts the gateway: migrations, bootstrap, a word on how to use it, and the server.

A database that is away is waited for beside the server, which answers 503 meanwhile; one that
answers and cannot be used is a reason not to start.
"""

import logging
import os
import shutil
import signal
import socket
import time
from argparse import ArgumentParser
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from proxy.configuration.bootstrap import Bootstrapped, bootstrap, client_key_path, local_client_key
from proxy.configuration.findings import exposures
from proxy.configuration.routing import resolve
from proxy.configuration.snapshot import Snapshot, load
from proxy.database.outage import is_away, reason, told
from proxy.database.schema import missing_migrations, unknown_migrations
from proxy.errors import GatewayError
from proxy.process.supervisor import Supervisor
from proxy.telemetry.metrics import DIRECTORY

logger = logging.getLogger("athena.serve")

_GRACE = 2
"""Seconds that the server waits when it hears of the end: by then the application has ended all
that was open (`proxy/process/drain.py`), and what is left is a client that does not read."""

_RETRY = 1.0
_RETRY_MOST = 10.0
"""Seconds between two attempts to reach the database, at first and at most."""

_WORKER_PATIENCE = 30
"""Seconds that a worker may not answer its parent: on a busy machine it needs some to start, and
would be killed and started again for ever."""


class Command(BaseCommand):
    help = "Start the gateway."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--no-migrate",
            action="store_true",
            help="leave the database's tables; also with those of the next version",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        check_address()
        try:
            lines = prepare(migrates=not options["no_migrate"])
            connection.close()  # the workers have their own
        except DatabaseError as error:
            if not is_away(error):
                name = settings.DATABASES["default"]["NAME"]
                raise CommandError(f"the database {name} cannot be used: {told(error)}") from error
            lines = f"The database is away ({reason(error)}): Athena is not ready until it is back."
            Thread(target=self._prepare_later, kwargs=options, daemon=True).start()
        if settings.WORKERS > 1:
            share_metrics()
        self._say(lines)
        # The server raises a signal again when it has ended: that is not an error.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        config = uvicorn.Config(
            "athena_site.asgi:application",
            host=settings.HOST,
            port=settings.PORT,
            workers=settings.WORKERS,
            loop="uvloop",
            http="proxy.http.protocol:GatewayProtocol",
            ws="none",
            lifespan="on",
            access_log=False,
            log_config=None,  # that of the settings has its loggers, too
            server_header=False,
            timeout_keep_alive=75,
            # Whom nobody trusts may say what they like of addresses and TLS.
            proxy_headers=bool(settings.TRUSTED_PROXIES),
            forwarded_allow_ips=settings.TRUSTED_PROXIES,
            timeout_worker_healthcheck=_WORKER_PATIENCE,
            timeout_graceful_shutdown=_GRACE,
        )
        run(config)
        self.stdout.write("Athena has stopped.")

    def _prepare_later(self, *, no_migrate: bool, **options: Any) -> None:
        """Try again until the database is there; the server runs beside this."""
        pause = _RETRY
        while True:
            time.sleep(pause)
            pause = min(2 * pause, _RETRY_MOST)
            try:
                lines = prepare(migrates=not no_migrate)
            except DatabaseError as error:
                logger.warning("not ready, the database is away: %s", reason(error))
            except CommandError as error:  # of another version's tables, say
                logger.error("not ready: %s", error)  # noqa: TRY400
            except Exception:
                logger.exception("not ready, the database cannot be used")
            else:
                self._say(lines)
                return
            finally:
                connection.close()

    def _say(self, lines: str) -> None:
        self.stdout.write(lines)
        self.stdout.flush()  # a log file must have it at once: the password is shown only now


def prepare(*, migrates: bool) -> str:
    """Bring the database up to date; what a person needs to know then. Raises DatabaseError."""
    prepare_tables(may_migrate=migrates)
    started = bootstrap()
    if started.unreadable:
        logger.warning(
            "ATHENA_SECRET_KEY is not the one with which secrets of these upstreams were stored: "
            "%s. Give every node the same; if it was changed on purpose, enter them again",
            ", ".join(started.unreadable),
        )
    return banner(started, load())


def prepare_tables(*, may_migrate: bool) -> None:
    """Bring the tables up to this version; raise CommandError if they are not for it."""
    if unknown := unknown_migrations():
        found = f"the database has migrations of a newer version ({', '.join(unknown)})"
        if may_migrate:
            raise CommandError(
                f"{found}: start that version. If it is the next one, `serve --no-migrate` goes"
                " back to this one."
            )
        logger.warning("%s: this one leaves them as they are", found)
    missing = missing_migrations()
    if missing and may_migrate:
        call_command("migrate", verbosity=0, interactive=False)
    elif missing:
        raise CommandError(
            f"migrations are missing ({', '.join(missing)}): run `manage.py migrate`, or start"
            " without --no-migrate."
        )


def run(config: uvicorn.Config) -> None:
    """Serve until a signal has ended it; raises CommandError if it cannot be begun."""
    if config.workers > 1:
        Supervisor(config, sockets=[config.bind_socket()]).run()
        return
    server = uvicorn.Server(config)
    server.run()
    if not server.started:
        raise CommandError("the server could not be started: the log says why")


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
    if not local_client_key():  # another node made the first
        shown_key = "KEY   # a client key; .venv/bin/python manage.py key create LABEL makes one"
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
    found = [*warnings(), *(finding.message for finding in exposures(snapshot))]
    lines += [f"  Warning: {warning}" for warning in found]
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
        lines.append(f"         password {_told(started.admin_password)}")
    if started.client_key and not settings.PRODUCTION:
        lines.append(f"  Client key, also in {path}: {started.client_key}")
    return "\n".join([*lines, ""])


def _told(password: str) -> str:
    """On the screen of the one who starts it. In production that is a log, so it is a file."""
    if not settings.PRODUCTION:
        return f"{password}   (shown only now)"
    path = settings.DATA_DIR / "admin_password"
    path.touch(mode=0o600)
    path.write_text(password)
    return f"in {path}: change it, and delete the file"


def warnings() -> list[str]:
    """What is likely a slip, but no reason not to start."""
    given = {name for name in os.environ if name.startswith("ATHENA_")}
    found = [
        f"{n} is set, but is no setting of Athena's." for n in sorted(given - settings.VARIABLES)
    ]
    database = Path(settings.DATA_DIR / "athena.sqlite3")
    if all(path.exists() and path.stat().st_mode & 0o005 for path in (database, database.parent)):
        found.append(f"others on this machine can read the database: chmod 600 {database}*")
    if password := os.environ.get("ATHENA_ADMIN_PASSWORD"):
        try:
            validate_password(password)
        except ValidationError as error:
            found.append(f"ATHENA_ADMIN_PASSWORD is weak. {' '.join(error.messages)}")
    return found
