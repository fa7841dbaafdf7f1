"""A private Redis server without persistence, which tests may kill and freeze."""

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import closing

import pytest

from tests.support.ports import free_port


class Redis:
    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Redis":
        program = shutil.which("redis-server")
        if program is None:
            message = "there is no redis-server: `make redis` installs it"
            if os.environ.get("REDIS_REQUIRED"):
                pytest.fail(message)
            pytest.skip(message)
        options = ["--port", str(self.port), "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            [program, "--bind", "127.0.0.1", *options], stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 30
        while not self._answers():
            assert time.monotonic() < deadline, "Redis did not start"
            time.sleep(0.05)
        return self

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Stop the process: connections stay open and are accepted, but nothing is answered."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _answers(self) -> bool:
        with closing(socket.socket()) as connection:
            connection.settimeout(1)
            try:
                connection.connect(("127.0.0.1", self.port))
                connection.sendall(b"PING\r\n")
                return connection.recv(7) == b"+PONG\r\n"
            except OSError:
                return False
