"""Runs Claude Code against the gateway, in a home and a working directory of its own."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.gateway import KEY, ROOT, Gateway

_RUN_SECONDS = 90
_MAX_CHARS = 4000
_TOOLS = "Agent,Bash,Edit,Read,Task,Write"


class Claude:
    def __init__(self, binary: Path, gateway_url: str, directory: Path) -> None:
        self._binary = binary
        self._output, self._errors = directory / "output", directory / "errors"
        self.home = directory / "home"
        self.work = directory / "work"
        self.home.mkdir()
        self.work.mkdir()
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "LANG": "C.UTF-8",
            "ANTHROPIC_BASE_URL": gateway_url,
            "ANTHROPIC_AUTH_TOKEN": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def run(
        self,
        prompt: str,
        *arguments: str,
        model: str | None = None,
        tools: str = _TOOLS,
        variables: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Run `claude -p`, which must succeed, and return its result."""
        model_variable = {"ANTHROPIC_MODEL": model} if model else {}
        options = ["--output-format", "json", "--allowedTools", tools]
        command = [str(self._binary), "-p", prompt, *options, *arguments]
        return self._result(command, self._environment | model_variable | (variables or {}))

    def run_lines(self, lines: str, prompt: str) -> dict[str, Any]:
        """Run shell commands, of which the last one starts `claude`, and return its result."""
        options = f"-p {shlex.quote(prompt)} --output-format json --allowedTools {_TOOLS}"
        unset = {"ANTHROPIC_BASE_URL": "", "ANTHROPIC_AUTH_TOKEN": ""}
        path = {"PATH": f"{self._binary.parent}:{os.environ['PATH']}"}
        command = ["sh", "-ec", f"{lines.rstrip()} {options}"]
        return self._result(command, self._environment | unset | path)

    def run_code(
        self, gateway: Gateway, prompt: str, *arguments: str, tools: str = _TOOLS
    ) -> dict[str, Any]:
        """Run `manage.py code` with arguments for `claude`, and return the result."""
        options = ["-p", prompt, "--output-format", "json", "--allowedTools", tools, *arguments]
        manage = [sys.executable, str(ROOT / "manage.py"), "code", "--"]
        path = {"PATH": f"{self._binary.parent}:{os.environ['PATH']}"}
        environment = gateway.environment | self._environment | path
        return self._result([*manage, *options], environment)

    def _result(self, command: list[str], environment: dict[str, str]) -> dict[str, Any]:
        # Files instead of pipes: shells that Claude Code starts may outlive it and keep a pipe open.
        with self._output.open("w") as output, self._errors.open("w") as errors:
            process = subprocess.Popen(
                command,
                cwd=self.work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
            try:
                status = process.wait(_RUN_SECONDS)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        assert status == 0, "Claude Code failed"
        result: dict[str, Any] = json.loads(self._output.read_text())
        return result

    def evidence(self) -> str:
        """Return the end of stdout and stderr."""
        outputs = [
            path.read_text()[-_MAX_CHARS:] for path in (self._output, self._errors) if path.exists()
        ]
        return "\nstderr:\n".join(outputs)
