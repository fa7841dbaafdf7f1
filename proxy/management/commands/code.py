"""`manage.py code`: runs Claude Code against this gateway, with its exit code and signals."""

import os
import shutil
from argparse import REMAINDER, ArgumentParser
from typing import Any
from urllib.parse import quote

import httpx
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from proxy.configuration.bootstrap import local_client_key
from proxy.configuration.claude_code import permission_arguments, session_model, session_variables


class Command(BaseCommand):
    help = "Run Claude Code against this gateway: manage.py code [arguments for claude]"
    requires_system_checks = []

    def run_from_argv(self, argv: list[str]) -> None:
        """Pass everything on, also options that argparse does not know, such as `--model`."""
        if argv[2:3] not in (["-h"], ["--help"], ["--"]):
            argv = [*argv[:2], "--", *argv[2:]]
        super().run_from_argv(argv)

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
        key = local_client_key()
        if not key:
            raise CommandError(
                "no client key found. Set ATHENA_CLIENT_KEY, or start the gateway once to create a"
                " key; `manage.py key create LABEL` creates another."
            )
        model = session_model(arguments, os.environ.get("ANTHROPIC_MODEL", ""))
        try:
            window = context_window(model, key)
        except httpx.TransportError as error:
            raise CommandError(
                f"the gateway at {settings.OWN_URL} does not answer. Start it with `make run`."
            ) from error
        environment = os.environ | claude_environment(key) | session_variables(model, window)
        environment.pop("ANTHROPIC_API_KEY", None)
        command = [program, *permission_arguments(arguments), *arguments]
        # Replacing this process passes exit code and signals through.
        os.execve(program, command, environment)  # noqa: S606


def claude_environment(key: str) -> dict[str, str]:
    """Return the variables that point Claude Code at this gateway."""
    return {
        "ANTHROPIC_BASE_URL": settings.OWN_URL,
        "ANTHROPIC_AUTH_TOKEN": key,
        "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1",
    }


def context_window(model: str, key: str) -> int | None:
    """Ask the gateway for the context window of a model; raises httpx.TransportError."""
    answer = httpx.get(
        f"{settings.OWN_URL}/v1/models/{quote(model, safe='/')}",
        headers={"x-api-key": key, "anthropic-version": "2023-06-01"},
        timeout=5,
        trust_env=False,
    )
    if answer.status_code != 200:  # the key may not use it, or no route has it: Claude Code says so
        return None
    window: int | None = answer.json().get("max_input_tokens")
    return window
