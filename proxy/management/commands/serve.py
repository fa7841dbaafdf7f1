"""`manage.py serve`: migrates, bootstraps, prints the start message and runs the server.

If the database is unreachable, the server starts anyway, answers 503, and preparation is retried in
a thread until the database is back. If the database answers but cannot be used, the start fails.
"""

import logging
import os
import shutil
import signal
import socket
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from difflib import get_close_matches
from math import ceil
from pathlib import Path
from shlex import quote
from threading import Thread
from typing import Any

import uvicorn
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, SystemCheckError
from django.db import DatabaseError, connection

from proxy.configuration.bootstrap import Bootstrapped, bootstrap, client_key_path, local_client_key
from proxy.configuration.claude_code import DEFAULT_MODEL, PERMISSION_MODE, session_variables
from proxy.configuration.diagnostics import security_findings
from proxy.configuration.routing import resolve
from proxy.configuration.snapshot import Snapshot, load
from proxy.database.outage import may_recover, message_without_password, safe_reason
from proxy.database.schema import missing_migrations, unknown_migrations
from proxy.errors import GatewayError
from proxy.process.supervisor import Supervisor
from proxy.telemetry import descriptors
from proxy.telemetry.metrics import DIRECTORY

logger = logging.getLogger("athena.serve")

_SHUTDOWN_GRACE = 2
"""Seconds that the server waits at shutdown. The application has ended all streams by then
(`proxy/process/drain.py`); only clients that do not read are left."""

_MIN_RETRY_PAUSE = 1.0
_MAX_RETRY_PAUSE = 10.0
"""Seconds between two attempts to reach the database; the pause doubles from first to maximum."""

_OWN = "ATHENA_"
"""Prefix of the gateway's own environment variables."""

_WORKER_TIMEOUT = 30
"""Seconds without an answer after which the parent kills a worker. On a busy machine a worker
needs several seconds to start; a shorter limit would restart it forever."""


class Command(BaseCommand):
    help = "Start the gateway."
    _called_from_command_line: bool  # Django's, unknown to its stubs

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--no-migrate",
            action="store_true",
            help="do not change the tables; also accepts tables and settings of the next version",
        )

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except SystemCheckError:
            raise  # Django prints its list as it is
        except CommandError as error:
            # Django would print the name of the class before the sentence.
            if options["traceback"] or not self._called_from_command_line:
                raise
            sys.exit(f"Athena cannot start: {error}")

    def handle(self, *args: Any, **options: Any) -> None:
        # Nodes that share an environment may be given a setting of the next version too early.
        if (unknown := unknown_variables()) and not options["no_migrate"]:
            raise CommandError(" ".join([*unknown, "docs/settings.md lists all settings."]))
        check_address()
        try:
            lines = prepare(migrates=not options["no_migrate"])
            connection.close()  # the workers have their own
        except DatabaseError as error:
            if not may_recover(error):
                name = settings.DATABASES["default"]["NAME"]
                raise CommandError(
                    f"the database {name} cannot be used: {message_without_password(error)}"
                ) from error
            lines = (
                f"The database is unreachable ({safe_reason(error)}). Athena answers 503 and "
                "retries until the database is back."
            )
            Thread(target=self._prepare_later, kwargs=options, daemon=True).start()
        if settings.WORKERS > 1:
            share_metrics()
        self._print(lines)
        # The server re-raises the signal after a clean shutdown, which is not an error.
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
            log_config=None,  # Django's LOGGING configures the server's loggers too
            server_header=False,
            timeout_keep_alive=75,
            # Forwarding headers count only from trusted proxies.
            proxy_headers=bool(settings.TRUSTED_PROXIES),
            forwarded_allow_ips=settings.TRUSTED_PROXIES,
            timeout_worker_healthcheck=_WORKER_TIMEOUT,
            timeout_graceful_shutdown=_SHUTDOWN_GRACE,
        )
        run(config)
        self.stdout.write("Athena has stopped.")

    def _prepare_later(self, *, no_migrate: bool, **options: Any) -> None:
        """Retry until the database is reachable. Runs in a thread beside the server."""
        pause = _MIN_RETRY_PAUSE
        while True:
            time.sleep(pause)
            pause = min(2 * pause, _MAX_RETRY_PAUSE)
            try:
                lines = prepare(migrates=not no_migrate)
            except DatabaseError as error:
                logger.warning("not ready, the database is unreachable: %s", safe_reason(error))
            except CommandError as error:  # for example, tables of another version
                logger.error("not ready: %s", error)  # noqa: TRY400
            except Exception:
                logger.exception("not ready, the database cannot be used")
            else:
                self._print(lines)
                return
            finally:
                connection.close()

    def _print(self, lines: str) -> None:
        self.stdout.write(lines)
        self.stdout.flush()  # stdout may be a file, and the password is printed only once


def prepare(*, migrates: bool) -> str:
    """Bring the database up to date and return the start message. Raises DatabaseError."""
    prepare_tables(may_migrate=migrates)
    bootstrapped = bootstrap()
    if bootstrapped.unreadable:
        logger.warning(
            "ATHENA_SECRET_KEY does not decrypt the stored secrets of these upstreams: %s. Use the "
            "same value on every node; if you changed it on purpose, enter the secrets again",
            ", ".join(bootstrapped.unreadable),
        )
    return start_message(bootstrapped, load())


def prepare_tables(*, may_migrate: bool) -> None:
    """Migrate the tables to this version; raises CommandError if they do not fit it."""
    if unknown := unknown_migrations():
        problem = f"the database has migrations of a newer version ({', '.join(unknown)})"
        if may_migrate:
            raise CommandError(
                f"{problem}. Start that version, or go back by one version with"
                " `serve --no-migrate`."
            )
        logger.warning("%s; this version leaves them in place", problem)
    missing = missing_migrations()
    if missing and may_migrate:
        call_command("migrate", verbosity=0, interactive=False)
    elif missing:
        raise CommandError(
            f"migrations are missing ({', '.join(missing)}). Run `manage.py migrate`, or start"
            " without --no-migrate."
        )


def run(config: uvicorn.Config) -> None:
    """Serve until a signal ends it; raises CommandError if the server cannot start."""
    if config.workers > 1:
        Supervisor(config, sockets=[config.bind_socket()]).run()
        return
    server = uvicorn.Server(config)
    server.run()
    if not server.started:
        raise CommandError("the server could not start; the log has the cause")


def check_address() -> None:
    """Fail early, before printing anything, if the address cannot be bound."""
    try:
        addresses = socket.getaddrinfo(settings.HOST, settings.PORT, type=socket.SOCK_STREAM)
        with socket.socket(addresses[0][0], socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(addresses[0][4])
    except OSError as error:
        raise CommandError(
            f"cannot listen on {settings.HOST} port {settings.PORT}: {error.strerror or error}. "
            "Set ATHENA_HOST or ATHENA_PORT to use another address."
        ) from error


def share_metrics() -> None:
    """Create an empty directory for the workers' metrics; they inherit its name."""
    path = settings.DATA_DIR / f"metrics-{settings.PORT}"
    try:
        if path.exists():
            shutil.rmtree(path)
        path.mkdir()
    except OSError as error:
        raise CommandError(f"the metrics directory {path} cannot be used: {error}") from error
    os.environ[DIRECTORY] = str(path)


def start_message(bootstrapped: Bootstrapped, snapshot: Snapshot) -> str:
    """Return what a new user needs, in order: address, models, admin login, curl, Claude Code."""
    url, path = settings.OWN_URL, client_key_path()
    is_open = settings.HOST in ("0.0.0.0", "::")  # noqa: S104
    key = f"$(cat {quote(str(path))})" if path.exists() else "$ATHENA_CLIENT_KEY"
    if not local_client_key():  # another node created the first key
        key = "KEY"
    lines = [
        "",
        f"Athena is listening on {url}{' and on all other addresses' if is_open else ''}",
        "",
        *(f"  {line}".rstrip() for line in _model_lines(snapshot)),
        "",
        f"  Admin: {url}/admin/  user {bootstrapped.admin_user}",
    ]
    if bootstrapped.admin_password:
        lines.append(f"         password {_password_note(bootstrapped.admin_password)}")
    else:
        lines.append(
            "         forgot the password? Run: .venv/bin/python manage.py changepassword"
            f" {quote(bootstrapped.admin_user)}"
        )
    warnings = [
        *environment_warnings(),
        *descriptor_warnings(snapshot.request_limits.max_streams),
        *(finding.message for finding in security_findings(snapshot)),
    ]
    lines += ["", *(f"  Warning: {warning}" for warning in warnings)] if warnings else []
    if key == "KEY":
        lines += [
            "",
            "  KEY below is a client key. To create one:",
            "  .venv/bin/python manage.py key create LABEL",
        ]
    elif bootstrapped.client_key and not settings.PRODUCTION:
        lines += ["", f"  Client key: {bootstrapped.client_key}  (also in {path})"]
    lines += [
        "",
        "  Try it in another terminal:",
        "",
        f'    curl {url}/v1/messages -H "x-api-key: {key}" \\',
        """      -d '{"model": "claude-sonnet-4-5", "max_tokens": 200,"""
        """ "messages": [{"role": "user", "content": "Hello"}]}'""",
        "",
        # No comments in the lines: in an interactive zsh they would become arguments. fish has no
        # `unset`; Claude Code ignores an empty key.
        "  Claude Code; --model NAME selects any model that has a route:",
        "",
        f"    export ANTHROPIC_BASE_URL={url}",
        f'    export ANTHROPIC_AUTH_TOKEN="{key}"',
        "    export ANTHROPIC_API_KEY=",
        *(f"    export {name}={value}" for name, value in _session_variables(snapshot).items()),
        f"    claude {' '.join(PERMISSION_MODE)}",
        "",
    ]
    return "\n".join(lines)


def _session_variables(snapshot: Snapshot) -> dict[str, str]:
    try:
        window = resolve(snapshot, DEFAULT_MODEL).context_window
    except GatewayError:
        window = None
    return session_variables(DEFAULT_MODEL, window)


def _model_lines(snapshot: Snapshot) -> Iterator[str]:
    for name in ("claude-opus", "claude-sonnet", "claude-haiku", "any other name"):
        try:
            route = resolve(snapshot, name)
        except GatewayError as error:
            yield f"{name:<15} {error}"
        else:
            yield f"{name:<15} → {route.upstream.name}: {route.model}"
    if any(row.upstream.name == "demo" for row in snapshot.routes):
        yield ""
        yield "demo is a built-in script that calls your tools."
        yield "To use real models, set OPENROUTER_API_KEY and restart, or add an upstream."


def _password_note(password: str) -> str:
    """Show the password on the terminal; in production, where stdout is a log, put it in a file."""
    if not settings.PRODUCTION:
        return f"{password}   (shown only once)"
    path = settings.DATA_DIR / "admin_password"
    path.touch(mode=0o600)
    path.write_text(password)
    return f"is in {path}: change it, then delete the file"


def unknown_variables() -> list[str]:
    """Describe each ATHENA_ variable that this version does not have, with the most similar one."""
    lines = []
    names = (name for name in os.environ if name.upper().startswith(_OWN))
    unknown = [name for name in names if name not in settings.VARIABLES]
    for name in sorted(unknown, key=str.upper):
        known = {variable.removeprefix(_OWN): variable for variable in settings.VARIABLES}
        similar = get_close_matches(name.upper().removeprefix(_OWN), known, n=1)
        hint = f" Did you mean {known[similar[0]]}?" if similar else ""
        lines.append(f"{name} is set, but Athena has no setting of that name.{hint}")
    return lines


def descriptor_warnings(max_streams: int) -> list[str]:
    """Warn if the limit of file descriptors is reached before that of concurrent requests."""
    has, needs = descriptors.limit(), descriptors.needed(ceil(max_streams / settings.WORKERS))
    if has >= needs:
        return []
    return [
        f"this process may open {has:,} files, but {max_streams:,} concurrent requests need about "
        f"{needs:,} in each process. Run `ulimit -n {needs}` before the start (LimitNOFILE={needs} "
        "with systemd), or lower *concurrent requests* in the gateway settings."
    ]


def environment_warnings() -> list[str]:
    """List likely mistakes that do not prevent a start."""
    warnings = unknown_variables()
    database = Path(settings.DATA_DIR / "athena.sqlite3")
    if all(path.exists() and path.stat().st_mode & 0o005 for path in (database, database.parent)):
        warnings.append(
            "other users of this machine can read the database. Run: chmod 600"
            f" {quote(str(database))}*"
        )
    if password := os.environ.get("ATHENA_ADMIN_PASSWORD"):
        try:
            validate_password(password)
        except ValidationError as error:
            warnings.append(f"ATHENA_ADMIN_PASSWORD is weak. {' '.join(error.messages)}")
    return warnings
