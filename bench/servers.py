"""Starts the servers of a run: mock upstream, pass-through and gateway, as processes on loopback.

They end with the `with` block that started them, and have an environment of their own, so that a
developer's settings or a proxy do not affect them.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOOPBACK = "127.0.0.1"
GATEWAY = (sys.executable, "manage.py", "serve")
CLIENT_KEY = "sk-bench-0123456789abcdef0123456789abcdef"
READY_SECONDS = 60.0
# Longer than the drain of a gateway.
STOP_SECONDS = 15.0
# Time until a change of the configuration is in effect in every process.
LIVE_SECONDS = 2.5

PASSTHROUGH_NAME, GATEWAY_NAME = "pass-through", "Athena"

Process = subprocess.Popen[bytes]


class ServerFailed(Exception):
    """A server ended or did not become ready; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Path of the requests, and the texts by which the load generator recognises answers."""

    path: str
    event: str
    """Occurs once in each event with content."""
    stream_end: str
    whole_end: str
    """Occurs in every complete answer that is not streamed."""


OPENAI = Dialect("/v1/chat/completions", '"delta":{', "[DONE]", '"finish_reason"')
ANTHROPIC = Dialect("/v1/messages", "event: content_block_delta", "message_stop", '"stop_reason"')


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    process: Process
    port: int
    dialect: Dialect
    headers: tuple[str, ...] = ()

    @property
    def pid(self) -> int:
        return self.process.pid

    def require_running(self) -> None:
        """Raises ServerFailed if the process has ended."""
        if (code := self.process.poll()) is not None:
            raise ServerFailed(f"{self.name} ended during the run with exit status {code}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}{path}", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _essential() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}


@contextmanager
def process(
    command: Sequence[str | Path],
    port: int,
    *,
    ready_path: str = "",
    timeout: float = READY_SECONDS,
    environment: Mapping[str, str] | None = None,
    user: str | None = None,
    folder: str | Path = ROOT,
) -> Iterator[Process]:
    """Run a command during a `with` block, which starts when its port answers."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=folder,
            user=user,
            env=_essential() | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            deadline = time.monotonic() + timeout
            while not (_answers(port, ready_path) if ready_path else _accepts(port)):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise ServerFailed(f"not ready: {' '.join(map(str, command))}")
                time.sleep(0.05)
            yield process
        except ServerFailed as error:
            log.seek(0)
            tail = log.read().decode(errors="replace")[-2000:]
            raise ServerFailed(f"{error}\n{tail}".rstrip()) from error
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def mock_upstream(program: Path, *, whole: bool) -> Iterator[Server]:
    port = free_port()
    with process([program, str(port), *(["--whole"] if whole else [])], port) as started:
        yield Server("direct", started, port, OPENAI)


@contextmanager
def passthrough(upstream: Server) -> Iterator[Server]:
    port = free_port()
    command = [sys.executable, "-m", "bench.passthrough", str(port), str(upstream.port)]
    with process(command, port) as started:
        yield Server(PASSTHROUGH_NAME, started, port, OPENAI)


@contextmanager
def gateway(
    upstream: Server, *, workers: int = 1, sampling: float | None = None, name: str = GATEWAY_NAME
) -> Iterator[Server]:
    """Start the gateway. `sampling` is the share of transcripts to keep; None for the default."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="athena-bench-") as data:
        environment = {
            "ATHENA_HOST": LOOPBACK,
            "ATHENA_PORT": str(port),
            "ATHENA_WORKERS": str(workers),
            "ATHENA_DATA_DIR": data,
            "ATHENA_CLIENT_KEY": CLIENT_KEY,
            "ATHENA_ALLOW_PRIVATE_UPSTREAMS": "all",
            # Set explicitly, like the workers, because a developer's .env file may differ.
            "DATABASE_URL": f"sqlite:///{data}/athena.sqlite3",
            "OPENROUTER_API_KEY": "sk-or-bench",
            "OPENROUTER_BASE_URL": f"http://{LOOPBACK}:{upstream.port}/v1",
        }
        with process(GATEWAY, port, ready_path="/readyz", environment=environment) as started:
            _configure(sampling, environment)
            headers = (f"x-api-key: {CLIENT_KEY}", "anthropic-version: 2023-06-01")
            yield Server(name, started, port, ANTHROPIC, headers)


def _configure(sampling: float | None, environment: Mapping[str, str]) -> None:
    """Change settings for the run, and wait until every process has them.

    One key opens more streams here than the default allows.
    """
    code = (
        "from proxy.models import GatewaySettings\n"
        "settings = GatewaySettings.objects.get(pk=1)\n"
        "settings.max_streams = 10_000\n"
    )
    if sampling is not None:
        code += f"settings.sample_calls = settings.sample_others = {sampling}\n"
    subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", code + "settings.save()"],
        cwd=ROOT,
        env=_essential() | dict(environment),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    time.sleep(LIVE_SECONDS)
