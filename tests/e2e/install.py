"""Installs packages from npm into `.e2e/`: Claude Code, and with `npm_install` other clients.

The program of Claude Code is a native binary in a package per platform and runs without Node. Its path is searched,
because npm may not have run the script that links it into `bin/`, and because versions before 2.1
are a Node script.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINNED = "2.1.327"
VERSION = os.environ.get("CLAUDE_CODE_VERSION") or PINNED
_PACKAGE = "@anthropic-ai/claude-code"
_INSTALL_SECONDS = 300


class NotInstalledError(Exception):
    """A client cannot be installed here; the message has the reason."""


def npm_install(prefix: Path, *packages: str) -> str:
    """Install packages into a directory and return npm's messages; raises NotInstalledError."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalledError("npm was not found; it comes with Node.js")
    prefix.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--prefix"]
    try:
        done = subprocess.run(
            [*command, str(prefix), *packages],
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NotInstalledError(f"npm did not finish within {_INSTALL_SECONDS} s") from error
    if done.returncode:
        raise NotInstalledError(f"npm install failed:\n{done.stderr[-2000:]}")
    return done.stderr[-2000:]


def maybe_program(paths: Iterable[Path], version: str) -> Path | None:
    """Return the first of these programs that runs here and has this version."""
    for path in paths:
        try:
            done = subprocess.run(
                [path, "--version"], capture_output=True, text=True, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue  # a placeholder, or a binary for another platform
        if done.stdout.startswith(version):
            return path
    return None


def install() -> Path:
    """Return the path of the program, installing it if necessary; raises NotInstalledError."""
    if binary := maybe_binary():
        return binary
    messages = npm_install(_prefix(), f"{_PACKAGE}@{VERSION}")
    if binary := maybe_binary():
        return binary
    raise NotInstalledError(f"npm installed no program that runs on this machine:\n{messages}")


def maybe_binary() -> Path | None:
    """Return the path of the installed program of the pinned version if it runs."""
    modules = _prefix() / "node_modules"
    paths = [modules / ".bin" / "claude", *modules.glob("@anthropic-ai/claude-code-*/claude")]
    return maybe_program(paths, VERSION)


def _prefix() -> Path:
    return ROOT / ".e2e" / VERSION
