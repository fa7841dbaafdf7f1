"""Installs the real opencode from npm into `.e2e/`, and runs it against the gateway.

Its native binary is in a package per platform. It has the providers of Vercel's AI SDK built in, so
a configuration that lists its models needs no other server; a proxy that refuses every connection
makes sure of that.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.install import ROOT, NotInstalledError, maybe_program, npm_install
from tests.support.gateway import KEY

VERSION = "1.18.33"
PROVIDERS = {"anthropic": "@ai-sdk/anthropic", "openai": "@ai-sdk/openai-compatible"}
_PREFIX = ROOT / ".e2e" / f"opencode-{VERSION}"
_RUN_SECONDS = 120
_MAX_CHARS = 4000
_NO_NETWORK = "http://127.0.0.1:9"  # the discard port: no server listens there


def install() -> None:
    """Install the program if necessary; raises NotInstalledError."""
    if maybe_binary() is None:
        messages = npm_install(_PREFIX, f"opencode-ai@{VERSION}")
        if maybe_binary() is None:
            raise NotInstalledError(f"npm installed no program that runs here:\n{messages}")


def maybe_binary() -> Path | None:
    return maybe_program(sorted(_PREFIX.glob("node_modules/opencode-*/bin/opencode")), VERSION)


class OpenCode:
    def __init__(self, binary: Path, gateway_url: str, directory: Path) -> None:
        self._binary = binary
        self._url = f"{gateway_url}/v1"
        self._home = directory / "home"
        self.work = directory / "work"
        self._output = self._errors = ""
        self._home.mkdir()
        self.work.mkdir()

    def run(self, dialect: str, model: str, prompt: str) -> list[dict[str, Any]]:
        """Run `opencode run`, which must succeed, and return the parts that it showed."""
        provider = {
            "npm": PROVIDERS[dialect],
            "options": {"baseURL": self._url, "apiKey": KEY},
            "models": {model: {"reasoning": True, "limit": {"context": 100_000, "output": 4000}}},
        }
        configuration = {
            "provider": {"gateway": provider},
            "share": "disabled",
            "permission": {"*": "allow"},
        }
        # With a title, no second request asks the model for one.
        options = ["--format", "json", "--thinking", "--title", "Test"]
        done = subprocess.run(
            [str(self._binary), "run", *options, "--model", f"gateway/{model}", prompt],
            cwd=self.work,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self._home),
                "TMPDIR": str(self._home),
                "LANG": "C.UTF-8",
                "OPENCODE_CONFIG_CONTENT": json.dumps(configuration),
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
                "HTTP_PROXY": _NO_NETWORK,
                "HTTPS_PROXY": _NO_NETWORK,
                "NO_PROXY": "127.0.0.1",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_RUN_SECONDS,
            check=False,
        )
        self._output, self._errors = done.stdout, done.stderr
        assert done.returncode == 0, "opencode failed"
        return [json.loads(line) for line in done.stdout.splitlines()]

    def evidence(self) -> str:
        """Return the end of stdout and stderr."""
        return f"{self._output[-_MAX_CHARS:]}\nstderr:\n{self._errors[-_MAX_CHARS:]}"
