"""Installs Vercel's AI SDK from npm into `.e2e/`, and runs `vercel.mjs` with it."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.install import ROOT, NotInstalledError

PACKAGES = {"ai": "7.0.173", "@ai-sdk/anthropic": "4.0.104", "@ai-sdk/openai-compatible": "3.0.92"}
_SCRIPT = Path(__file__).with_name("vercel.mjs")
_PREFIX = ROOT / ".e2e" / f"vercel-{PACKAGES['ai']}"
_INSTALL_SECONDS = 300
_RUN_SECONDS = 60


def is_installed() -> bool:
    return shutil.which("node") is not None and all(
        (_PREFIX / "node_modules" / name / "package.json").exists() for name in PACKAGES
    )


def install() -> None:
    """Install the packages if necessary; raises NotInstalledError."""
    npm = shutil.which("npm")
    if is_installed():
        return
    if npm is None:
        raise NotInstalledError("npm was not found; it comes with Node.js")
    _PREFIX.mkdir(parents=True, exist_ok=True)
    packages = [f"{name}@{version}" for name, version in PACKAGES.items()]
    command = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--prefix"]
    try:
        done = subprocess.run(
            [*command, str(_PREFIX), *packages],
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NotInstalledError(f"npm did not finish within {_INSTALL_SECONDS} s") from error
    if done.returncode or not is_installed():
        raise NotInstalledError(f"npm install failed:\n{done.stderr[-2000:]}")


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
