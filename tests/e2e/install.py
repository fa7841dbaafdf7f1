"""The real Claude Code, installed from npm beside the project.

The program is a native binary in a package of its own for every platform, and runs without Node. It
is looked for instead of computed: npm may or may not have run the script that puts it into `bin/`,
and versions before 2.1 are a script for Node.
"""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINNED = "2.1.325"
VERSION = os.environ.get("CLAUDE_CODE_VERSION") or PINNED
_PACKAGE = "@anthropic-ai/claude-code"
_INSTALL_SECONDS = 300


class NotInstalledError(Exception):
    """Claude Code cannot be had here; the message says why."""


def install() -> Path:
    """The program, installed if need be; raises NotInstalledError."""
    if binary := maybe_binary():
        return binary
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalledError("npm was not found, it comes with Node.js")
    _prefix().mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--prefix"]
    try:
        done = subprocess.run(
            [*command, str(_prefix()), f"{_PACKAGE}@{VERSION}"],
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NotInstalledError(f"npm did not finish within {_INSTALL_SECONDS} s") from error
    if done.returncode:
        raise NotInstalledError(f"npm install failed:\n{done.stderr[-2000:]}")
    if binary := maybe_binary():
        return binary
    raise NotInstalledError(f"npm installed no program that runs here:\n{done.stderr[-2000:]}")


def maybe_binary() -> Path | None:
    """The installed program of the pinned version, if it is there and runs."""
    modules = _prefix() / "node_modules"
    for path in [modules / ".bin" / "claude", *modules.glob("@anthropic-ai/claude-code-*/claude")]:
        try:
            done = subprocess.run(
                [path, "--version"], capture_output=True, text=True, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue  # a placeholder, or another platform's
        if done.stdout.startswith(VERSION):
            return path
    return None


def _prefix() -> Path:
    return ROOT / ".e2e" / VERSION
