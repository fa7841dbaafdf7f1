"""`manage.py code`: runs Claude Code against this gateway, with its exit code and signals."""

import os
import shutil
from argparse import REMAINDER, ArgumentParser
from typing import Any

import httpx
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from proxy.configuration.bootstrap import local_client_key


class Command(BaseCommand):
    help = "Run Claude Code against this gateway: manage.py code [-- arguments for claude]"
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("arguments", nargs=REMAINDER, help="arguments for claude")

    def handle(self, *args: Any, **options: Any) -> None:
        arguments = options["arguments"]
        if arguments[:1] == ["--"]:
            arguments = arguments[1:]
        program = shutil.which("claude")
        if program is None:
            raise CommandError(
                "claude is not installed. Run: npm install -g @anthropic-ai/claude-code",
                returncode=127,
            )
        try:
            httpx.get(f"{settings.OWN_URL}/healthz", timeout=5, trust_env=False)
        except httpx.TransportError as error:
            raise CommandError(
                f"the gateway at {settings.OWN_URL} does not answer. Start it with `make run`."
            ) from error
        # Replacing this process passes exit code and signals through.
        os.execve(program, [program, *arguments], claude_environment(os.environ))  # noqa: S606


def claude_environment(environment: "os._Environ[str] | dict[str, str]") -> dict[str, str]:
    """Return the environment that points Claude Code at this gateway and at no other API."""
    key = local_client_key()
    if not key:
        raise CommandError(
            "no client key found. Set ATHENA_CLIENT_KEY, or start the gateway once to create a key;"
            " `manage.py key create LABEL` creates another."
        )
    kept = {k: v for k, v in environment.items() if k != "ANTHROPIC_API_KEY"}
    return {
        **kept,
        "ANTHROPIC_BASE_URL": settings.OWN_URL,
        "ANTHROPIC_AUTH_TOKEN": key,
        "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1",
    }
