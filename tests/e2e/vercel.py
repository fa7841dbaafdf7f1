"""Installs Vercel's AI SDK from npm into `.e2e/`, and runs `vercel.mjs` with it."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.install import ROOT, NotInstalledError, npm_install

PACKAGES = {"ai": "7.0.173", "@ai-sdk/anthropic": "4.0.104", "@ai-sdk/openai-compatible": "3.0.92"}
_SCRIPT = Path(__file__).with_name("vercel.mjs")
_PREFIX = ROOT / ".e2e" / f"vercel-{PACKAGES['ai']}"
_RUN_SECONDS = 60


def is_installed() -> bool:
    return shutil.which("node") is not None and all(
        (_PREFIX / "node_modules" / name / "package.json").exists() for name in PACKAGES
    )


def install() -> None:
    """Install the packages if necessary; raises NotInstalledError."""
    if is_installed():
        return
    npm_install(_PREFIX, *(f"{name}@{version}" for name, version in PACKAGES.items()))
    if not is_installed():
        raise NotInstalledError("npm did not install all packages, or Node.js is missing")


def run(dialect: str, url: str, key: str, model: str, directory: Path) -> dict[str, Any]:
    """Run one conversation; return its text, reasoning, errors and request bodies."""
    # Node finds packages beside the script, not in the working directory.
    script = _PREFIX / f"{directory.name}.mjs"
    script.write_text(_SCRIPT.read_text())
    try:
        done = subprocess.run(
            ["node", str(script), dialect, url, key, model],
            capture_output=True,
            text=True,
            timeout=_RUN_SECONDS,
            check=False,
            env={"PATH": os.environ["PATH"], "HOME": str(directory)},
        )
    finally:
        script.unlink()
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout)
    return result
