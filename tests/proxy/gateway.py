"""A real gateway process, started as a user would start it."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parent.parent.parent
# Columns that hold JSON.
_JSON = {"notices", "attempts", "headers", "tools", "reading", "arrivals", "events", "left_out"}
_PATIENCE = 90  # seconds: a start takes two, but not on a machine that has much else to do
KEY = "sk-athena-test-key-of-the-suite"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Gateway:
    def __init__(self, data_dir: Path, **environment: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data_dir = data_dir
        self.log_path = data_dir / "gateway.log"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ATHENA_", "OPENROUTER_"))}
        self.environment = {
            **kept,
            "ATHENA_DATA_DIR": str(data_dir),
            "ATHENA_PORT": str(self.port),
            "ATHENA_CLIENT_KEY": KEY,
            "ATHENA_ADMIN_PASSWORD": "an admin's password",
            **environment,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Gateway":
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "serve"],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}/readyz").status_code == 200:
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
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment | options.pop("environment", {}),
            capture_output=True,
            text=True,
            timeout=60,
            **options,
        )

    def edit(self, code: str) -> None:
        """Change rows as an operator would, and wait until the change is live."""
        told = "print(ConfigurationVersion.objects.get().number)"
        done = self.manage(
            "shell", "--no-imports", "-c", f"from proxy.models import *\n{code}\n{told}"
        )
        assert done.returncode == 0, done.stderr
        deadline = time.monotonic() + 5
        while self._version() < int(done.stdout.split()[-1]):
            assert time.monotonic() < deadline, "the edit did not become live"
            time.sleep(0.05)

    def _version(self) -> int:
        return int(httpx.get(f"{self.url}/readyz").json()["configuration_version"])

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """What the database says; JSON is decoded."""
        path = self.data_dir / "athena.sqlite3"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as database:
            database.row_factory = sqlite3.Row
            found = [dict(row) for row in database.execute(query, values)]
        for row in found:
            row.update({name: json.loads(row[name]) for name in row.keys() & _JSON})
        return found

    def exchange(
        self, response: httpx.Response | None = None, *, model: str = ""
    ) -> dict[str, Any]:
        """The one row of an exchange, once it is written."""
        query, value = "SELECT * FROM proxy_exchange WHERE model = ?", model
        if response is not None:
            query, value = query.replace("model", "request_id"), response.headers["request-id"]
        deadline = time.monotonic() + 10
        while not (found := self.rows(query, value)):
            assert time.monotonic() < deadline, f"no row\n{self.log[-2000:]}"
            time.sleep(0.05)
        assert len(found) == 1
        return found[0]

    def transcript(self, exchange: dict[str, Any]) -> dict[str, Any] | None:
        query = "SELECT * FROM proxy_transcript WHERE exchange_id = ?"
        return next(iter(self.rows(query, exchange["id"])), None)

    def client(self, **headers: str) -> httpx.Client:
        return httpx.Client(
            base_url=self.url, headers={"x-api-key": KEY, **headers}, timeout=30, trust_env=False
        )
