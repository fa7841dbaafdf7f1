"""Starts the gateway: migrations, bootstrap, a word on how to use it, and the server."""

import signal
from argparse import ArgumentParser
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand

from proxy.bootstrap import Bootstrapped, bootstrap, client_key_path
from proxy.models import GatewaySettings

_GRACE = 10
"""Seconds that the server waits longer than the application: it ends streams without a word."""


class Command(BaseCommand):
    help = "Start the gateway."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-migrate", action="store_true", help="leave the database's tables")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["no_migrate"]:
            call_command("migrate", verbosity=0, interactive=False)
        self.stdout.write(banner(bootstrap()))
        drain = GatewaySettings.objects.get(pk=1).drain_time
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
            log_level="warning",
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(drain) + _GRACE,
        )
        self.stdout.write("Athena has stopped.")


def banner(started: Bootstrapped) -> str:
    """What a person needs to know to use it."""
    url, path = settings.OWN_URL, client_key_path()
    shown_key = f'"$(cat {path})"' if path.exists() else '"$ATHENA_CLIENT_KEY"'
    lines = ["", f"Athena listens on {url}", ""]
    if started.upstream == "demo":
        lines += [
            "  Answers come from the built-in demo model: a script that calls your tools.",
            "  Set OPENROUTER_API_KEY and start again to use real models.",
        ]
    else:
        lines.append(f"  Answers come from the upstream {started.upstream}.")
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
