"""Starts Python programs as forks of a process that has imported their packages already.

Imports are two thirds of the cost of a start, and the suite starts hundreds of gateways. Each worker
has one launcher process, which imports packages that do not depend on settings. A start sends it
descriptors, an environment and arguments; a fork runs the program like the interpreter would, with
its own process number, signals, threads and exit status. Variables for the interpreter or the linker
have no effect on a fork: such programs are started in the ordinary way (`can_launch`).
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import Struct

_ROOT = Path(__file__).parent.parent.parent
_MAX_REQUEST_BYTES = 128 * 1024  # mostly the environment
_STREAMS = 3
_NUMBER = Struct("!i")
_lock = threading.Lock()
_channels: list[socket.socket] = []

# Not `prometheus_client`, which reads the environment when it is imported.
_PACKAGES = (
    "argon2",
    "cryptography.fernet",
    "django.contrib.postgres.fields",
    "django.core.asgi",
    "django.core.management",
    "django.db.migrations.executor",
    "django.test",
    "django.urls",
    "django.views.generic",
    "environ",
    "formats",
    "httpcore",
    "httpx",
    "msgspec",
    "psycopg",
    "pygments.formatters.html",
    "pygments.lexers.special",
    "uritemplate",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
    "yaml",
)


def can_launch(environment: Mapping[str, str]) -> bool:
    """Return whether all variables of the environment take effect in a fork."""

    def at_start(values: Mapping[str, str]) -> dict[str, str]:
        return {k: v for k, v in values.items() if k.startswith(("PYTHON", "LD_"))}

    return at_start(environment) == at_start(os.environ)


class Launched:
    """A started program, with the interface of `subprocess.Popen`."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
    ) -> None:
        """Take the arguments of the interpreter: a file or `-m` and a module, then its arguments."""
        self.args = list(arguments)
        self.returncode: int | None = None
        self._connection, theirs = socket.socketpair()
        request = json.dumps([self.args, dict(environment)]).encode()
        with theirs:
            socket.send_fds(_channel(), [request], [theirs.fileno(), stdin, stdout, stderr])
        weakref.finalize(self, self._connection.close)
        self.pid = self._receive_number()

    def _receive_number(self) -> int:
        """Receive the process number and, the second time, the exit status."""
        data = self._connection.recv(_NUMBER.size)
        assert data, "the launcher process has ended"
        return int(_NUMBER.unpack(data)[0])

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                self.returncode = self._receive_number()
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _channel() -> socket.socket:
    """Return the connection to the launcher process, which ends with the connection."""
    with _lock:
        if not _channels:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.support.launcher", str(theirs.fileno())],
                    cwd=_ROOT,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
            _channels.append(ours)
            atexit.register(process.wait)
            atexit.register(ours.close)
        return _channels[0]


def _next_job(channel: socket.socket) -> list[str] | None:
    """Return None in the launcher at its end, and the arguments in a fork."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(channel, _MAX_REQUEST_BYTES, 1 + _STREAMS)
        if not request:
            return None
        if not os.fork():
            break
        for descriptor in descriptors:
            os.close(descriptor)
    # A process between launcher and program waits for its end and reports the exit status.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel.close()
    connection = socket.socket(fileno=descriptors[0])
    if child := os.fork():
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        connection.sendall(_NUMBER.pack(child))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        try:
            connection.sendall(_NUMBER.pack(code))
        finally:
            os._exit(0)
    connection.close()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(descriptors[1:]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    arguments: list[str]
    arguments, environment = json.loads(request)
    os.environ.clear()
    os.environ.update(environment)
    return arguments


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from the keyboard: the tests end this process
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.disable()
    for name in _PACKAGES:
        importlib.import_module(name)
    gc.freeze()
    arguments = _next_job(socket.socket(fileno=int(sys.argv[1])))
    if arguments is None:
        return
    gc.enable()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
