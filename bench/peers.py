"""Other gateways, installed from their registries into `.peers/`, and measured with their defaults.

    python -m bench.peers        installs those that are missing

Each has one worker and as little logging and telemetry as it allows; the mock upstream is its only
model. Nothing of theirs is kept in the repository.

Any other gateway can be measured as well: create a folder in `.peers/` with an executable `start`,
which gets a port and the upstream's address and serves in the foreground, and a file `version`.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.bodies import MODEL
from bench.servers import ANTHROPIC, LOOPBACK, ROOT, Server, free_port, process

PEERS = ROOT / ".peers"
# One of them takes half a minute for its imports on a slow machine.
START_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    package: str
    """Package and version."""
    needs: str
    """The program that installs it."""
    install: Callable[[Path], list[list[str]]]
    """Commands that install it into a folder."""
    version: Callable[[Path], str | None]
    """The version installed in a folder; None if there is none."""
    start: Callable[[Path, Server], AbstractContextManager[Server]]

    @property
    def folder(self) -> Path:
        return PEERS / self.name.lower()

    @property
    def installed(self) -> str | None:
        return self.version(self.folder)


def _litellm_version(folder: Path) -> str | None:
    paths = sorted(folder.glob("lib/python3*/site-packages/litellm-*.dist-info"))
    return paths[0].name.split("-")[1].removesuffix(".dist") if paths else None


@contextmanager
def _litellm(folder: Path, upstream: Server) -> Iterator[Server]:
    port, key = free_port(), f"sk-{secrets.token_hex(32)}"  # it rejects weak ones
    settings = {
        "model_list": [
            {
                "model_name": MODEL,
                "litellm_params": {
                    "model": f"openai/{MODEL}",
                    "api_base": f"http://{LOOPBACK}:{upstream.port}/v1",
                    "api_key": "sk-bench",
                },
            }
        ],
        "litellm_settings": {
            "telemetry": False,
            "num_retries": 0,
            "use_chat_completions_url_for_anthropic_messages": True,
        },
        "general_settings": {"disable_spend_logs": True},
    }
    with tempfile.TemporaryDirectory(prefix="athena-bench-") as home:
        (Path(home) / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML, too
        environment = {
            "HOME": home,
            "LITELLM_MASTER_KEY": key,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_TELEMETRY": "False",
            "LITELLM_LOG": "ERROR",
            "LITELLM_USE_CHAT_COMPLETIONS_URL_FOR_ANTHROPIC_MESSAGES": "true",
            "NO_DOCS": "True",
        }
        command = [str(folder / "bin" / "litellm"), "--config", "config.yaml", "--host", LOOPBACK]
        with process(
            [*command, "--port", str(port), "--num_workers", "1"],
            port,
            ready_path="/health/liveliness",
            timeout=START_SECONDS,
            environment=environment,
            folder=home,
        ) as started:
            headers = (f"x-api-key: {key}", "anthropic-version: 2023-06-01")
            yield Server("LiteLLM", started, port, ANTHROPIC, headers)


_ROUTER = Path("node_modules/@musistudio/claude-code-router")


def _router_version(folder: Path) -> str | None:
    path = folder / _ROUTER / "package.json"
    return str(json.loads(path.read_text())["version"]) if path.exists() else None


@contextmanager
def _router(folder: Path, upstream: Server) -> Iterator[Server]:
    port, model = free_port(), f"mock,{MODEL}"
    settings = {
        "HOST": LOOPBACK,
        "PORT": port,
        "LOG": False,
        "API_TIMEOUT_MS": 600_000,
        "NON_INTERACTIVE_MODE": True,
        "Providers": [
            {
                "name": "mock",
                "api_base_url": f"http://{LOOPBACK}:{upstream.port}/v1/chat/completions",
                "api_key": "sk-bench",
                "models": [MODEL],
            }
        ],
        "Router": dict.fromkeys(("default", "background", "think", "longContext"), model),
    }
    with tempfile.TemporaryDirectory(prefix="athena-bench-") as home:
        (Path(home) / ".claude-code-router").mkdir()
        (Path(home) / ".claude-code-router" / "config.json").write_text(json.dumps(settings))
        with process(
            ["node", folder / _ROUTER / "dist" / "cli.js", "start"],
            port,
            timeout=START_SECONDS,
            environment={"HOME": home, "SERVICE_PORT": str(port), "CI": "true"},
            folder=home,
        ) as started:
            headers = ("x-api-key: sk-bench", "anthropic-version: 2023-06-01")
            yield Server("claude-code-router", started, port, ANTHROPIC, headers)


def _version_file(folder: Path) -> str | None:
    if not (folder / "start").exists():
        return None
    path = folder / "version"
    return path.read_text().strip() if path.exists() else ""


@contextmanager
def _started(folder: Path, upstream: Server) -> Iterator[Server]:
    port = free_port()
    command: list[str | Path] = [folder / "start", str(port), f"http://{LOOPBACK}:{upstream.port}"]
    with process(command, port, timeout=START_SECONDS, folder=folder) as started:
        headers = ("x-api-key: sk-bench", "anthropic-version: 2023-06-01")
        yield Server(folder.name, started, port, ANTHROPIC, headers)


def _pip(package: str) -> Callable[[Path], list[list[str]]]:
    return lambda folder: [
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin" / "pip"), "install", "--quiet", package],
    ]


def _npm(package: str) -> Callable[[Path], list[list[str]]]:
    return lambda folder: [
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), package]
    ]


ALL = (
    Peer(
        "claude-code-router",
        "@musistudio/claude-code-router@2.0.0",
        "npm",
        _npm("@musistudio/claude-code-router@2.0.0"),
        _router_version,
        _router,
    ),
    Peer(
        "LiteLLM",
        "litellm[proxy]==1.106.2",
        "pip",
        _pip("litellm[proxy]==1.106.2"),
        _litellm_version,
        _litellm,
    ),
)


def installed() -> list[Peer]:
    added = [
        Peer(start.parent.name, "", "", lambda _: [], _version_file, _started)
        for start in sorted(PEERS.glob("*/start"))
    ]
    return [*added, *(peer for peer in ALL if peer.installed)]


def missing() -> list[str]:
    """Instructions for the peers that are not installed."""
    return [
        f"{peer.name} is not installed. `make bench-peers` installs {peer.package} ({peer.needs})."
        for peer in ALL
        if not peer.installed
    ]


def install() -> int:
    PEERS.mkdir(exist_ok=True)
    failed = 0
    for peer in ALL:
        if peer.installed is None:
            try:
                _install(peer)
            except (OSError, subprocess.CalledProcessError) as error:
                shutil.rmtree(peer.folder, ignore_errors=True)
                print(f"Installing {peer.package} failed: {error}", file=sys.stderr)
                failed = 1
                continue
        print(f"{peer.name} {peer.installed} is installed in {peer.folder.relative_to(ROOT)}")
    return failed


def _install(peer: Peer) -> None:
    print(f"installing {peer.package} …", flush=True)
    for command in peer.install(peer.folder):
        subprocess.run(
            command, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        )


if __name__ == "__main__":
    sys.exit(install())
