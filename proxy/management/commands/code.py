"""Starts Claude Code against this gateway. Its exit code and its signals are its own."""

import os
import shutil
from argparse import REMAINDER, ArgumentParser
from typing import Any

import httpx
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from proxy.configuration.bootstrap import local_client_key


class Command(BaseCommand):
    help = "Start Claude Code against this gateway: manage.py code [-- arguments of claude]"
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("arguments", nargs=REMAINDER, help="passed on to claude")

    def handle(self, *args: Any, **options: Any) -> None:
        arguments = options["arguments"]
        if arguments[:1] == ["--"]:
            arguments = arguments[1:]
        program = shutil.which("claude")
        if program is None:
            raise CommandError(
                "claude is not installed: npm install -g @anthropic-ai/claude-code", returncode=127
            )
        try:
            httpx.get(f"{settings.OWN_URL}/healthz", timeout=5, trust_env=False)
        except httpx.TransportError as error:
            raise CommandError(
                f"no gateway answers at {settings.OWN_URL}: start it with `make run`"
            ) from error
        # Taking the place of this process passes exit code and signals on by itself.
        os.execve(program, [program, *arguments], claude_environment(os.environ))  # noqa: S606


def claude_environment(environment: "os._Environ[str] | dict[str, str]") -> dict[str, str]:
    """The environment in which Claude Code finds this gateway, and nothing else."""
    key = local_client_key()
    if not key:
        raise CommandError(
            "no client key is known here: set ATHENA_CLIENT_KEY, or start the gateway once;"
            " `manage.py key create LABEL` makes another"
        )
    kept = {k: v for k, v in environment.items() if k != "ANTHROPIC_API_KEY"}
    return {
        **kept,
        "ANTHROPIC_BASE_URL": settings.OWN_URL,
        "ANTHROPIC_AUTH_TOKEN": key,
        "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1",
    }
