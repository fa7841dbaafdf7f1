"""A gateway process, started with `manage.py serve` as a user would.

Where possible it is forked from a process that has imported the packages already
(`tests/support/launcher.py`).
"""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any

import httpx
from msgspec.structs import asdict

from proxy.audit.transcripts.codec import TranscriptContent, unpack
from tests.support.database import database_url, read_rows
from tests.support.launcher import Launched, can_launch
from tests.support.ports import free_port
from tests.support.waiting import wait_for

ROOT = Path(__file__).parent.parent.parent
_PATIENCE = 90  # seconds; a start takes two on an idle machine
KEY = "sk-athena-test-key-of-the-suite"
# For a gateway with the settings of the product (`tests/support/suite_settings.py`).
PRODUCT_SETTINGS = {"DJANGO_SETTINGS_MODULE": "athena_site.settings"}
# For a gateway whose database is locked or frozen by the test.
SHORT_TIMEOUTS = {"DJANGO_SETTINGS_MODULE": "tests.support.short_timeouts"}
# Gateways speak plain HTTP. Without this, httpx reads the certificates of this machine for every
# client, which takes 25 ms.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def launch(
    arguments: list[str], environment: dict[str, str], stdin: int, stdout: int, stderr: int
) -> subprocess.Popen[bytes] | Launched:
    if can_launch(environment):
        return Launched(
            arguments, environment=environment, stdin=stdin, stdout=stdout, stderr=stderr
        )
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )


class Editor:
    """The other side of `tests.support.editor`."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._connection, theirs = socket.socketpair()
        with theirs:
            self._process = launch(
                ["-m", "tests.support.editor"],
                environment | {"DJANGO_SETTINGS_MODULE": "athena_site.settings"},
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=2,
            )
        self._lines = self._connection.makefile("rw")

    def run(self, code: str) -> object:
        """Return the new configuration version, or a traceback."""
        print(json.dumps(code), file=self._lines, flush=True)
        return json.loads(self._lines.readline())

    def close(self) -> None:
        self._lines.close()
        self._connection.close()  # the process ends with its input
        self._process.wait()


class Gateway:
    def __init__(self, data_dir: Path, **environment: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data_dir = data_dir
        self.log_path = data_dir / "gateway.log"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ATHENA_", "OPENROUTER_"))}
        self.environment = {
            **kept,
            "DJANGO_SETTINGS_MODULE": "tests.support.suite_settings",
            "ATHENA_DATA_DIR": str(data_dir),
            "ATHENA_PORT": str(self.port),
            "ATHENA_CLIENT_KEY": KEY,
            "ATHENA_ADMIN_PASSWORD": "an admin's password",
            # Always set, because a developer's .env file may name another.
            "DATABASE_URL": environment.get("DATABASE_URL") or database_url(data_dir),
            **environment,
        }
        self.process: subprocess.Popen[bytes] | Launched | None = None
        self._editor: Editor | None = None

    def start(self, *options: str, until: str = "/readyz", stderr: int | None = None) -> "Gateway":
        """Start the process, and return when the path `until` answers 200.

        `stderr` is a file descriptor for the log, instead of the log file.
        """
        with self.log_path.open("ab") as log:
            self.process = launch(
                ["manage.py", "serve", *options],
                self.environment,
                stdin=0,
                stdout=log.fileno(),
                stderr=log.fileno() if stderr is None else stderr,
            )
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}{until}", verify=NO_TLS).status_code == 200:
                    return self
            except httpx.TransportError:
                time.sleep(0.05)
        self.stop(signal.SIGKILL)
        raise AssertionError(f"the gateway did not start:\n{self.log}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    @property
    def log(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    def manage(self, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        """Run a command of `manage.py` to its end, with options of `subprocess.run` and `environment`."""
        command = ["manage.py", *arguments]
        environment = self.environment | options.pop("environment", {})
        if options or not can_launch(environment):
            return subprocess.run(
                [sys.executable, *command],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                **options,
            )
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
            process = launch(command, environment, 0, out.fileno(), errors.fileno())
            try:
                code = process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            for file in (out, errors):
                file.seek(0)
            return subprocess.CompletedProcess(command, code, out.read(), errors.read())

    def edit(self, code: str) -> None:
        """Run code that edits rows, and wait until the edit is live."""
        if self._editor is None:
            self._editor = Editor(self.environment)
            weakref.finalize(self, self._editor.close)
        version = self._editor.run(code)
        assert isinstance(version, int), version
        wait_for(lambda: self._version() >= version)

    def ready(self) -> httpx.Response:
        """Return the answer of `/readyz`."""
        return httpx.get(f"{self.url}/readyz", timeout=20, verify=NO_TLS)

    def _version(self) -> int:
        return int(self.ready().json()["configuration_version"])

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Query the database; JSON columns are decoded."""
        return read_rows(self.environment["DATABASE_URL"], query, *values)

    def exchange(
        self, response: httpx.Response | None = None, *, model: str = ""
    ) -> dict[str, Any]:
        """Return the only row of an exchange, as soon as it is written."""
        query, value = "SELECT * FROM proxy_exchange WHERE model = ?", model
        if response is not None:
            query, value = query.replace("model", "request_id"), response.headers["request-id"]
        rows = wait_for(lambda: self.rows(query, value))
        assert len(rows) == 1
        return rows[0]

    def transcript(self, exchange: dict[str, Any]) -> dict[str, Any] | None:
        transcripts = self.transcripts(exchange["id"])
        return asdict(transcripts[0]) if transcripts else None

    def transcripts(self, exchange: int | None = None) -> list[TranscriptContent]:
        """Return the stored transcript of one exchange, or all transcripts."""
        query = "SELECT packed FROM proxy_transcript WHERE exchange_id = COALESCE(?, exchange_id)"
        return [unpack(row["packed"]) for row in self.rows(query, exchange)]

    def client(self, **headers: str) -> httpx.Client:
        return httpx.Client(
            base_url=self.url,
            headers={"x-api-key": KEY, **headers},
            timeout=30,
            trust_env=False,
            verify=NO_TLS,
        )
