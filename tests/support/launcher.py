"""Starts `manage.py` and its like from a process that has imported their packages already.

Two thirds of what a start costs are imports, and the suite starts hundreds. One process for each of
its own imports what depends on no setting; every start is a fork of it, which gets descriptors, an
environment and arguments, and runs the program as the interpreter would, to its end: it has a process
number, signals, threads and an exit status of its own. Nothing of the gateway that has settings is
imported before. What the environment says to the interpreter or to the linker itself is not heeded
by a fork: such programs are started as any other (`can_launch`).
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
_MOST = 128 * 1024  # bytes of a request: an environment
_STREAMS = 3
_NUMBER = Struct("!i")
_lock = threading.Lock()
_channels: list[socket.socket] = []

# Not `prometheus_client`, which looks at the environment when it is imported.
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
    """Whether a fork heeds all that the environment says."""

    def early(values: Mapping[str, str]) -> dict[str, str]:
        return {k: v for k, v in values.items() if k.startswith(("PYTHON", "LD_"))}

    return early(environment) == early(os.environ)


class Launched:
    """A process, as `subprocess.Popen` would show it."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
    ) -> None:
        """`arguments` are those of the interpreter: a file and its own, or `-m` and a module."""
        self.args = list(arguments)
        self.returncode: int | None = None
        self._connection, theirs = socket.socketpair()
        request = json.dumps([self.args, dict(environment)]).encode()
        with theirs:
            socket.send_fds(_channel(), [request], [theirs.fileno(), stdin, stdout, stderr])
        weakref.finalize(self, self._connection.close)
        self.pid = self._told()

    def _told(self) -> int:
        """The process number, and then its exit status."""
        data = self._connection.recv(_NUMBER.size)
        assert data, "the process that forks has ended"
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
                self.returncode = self._told()
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
    """To the process that forks, which ends when the channel does."""
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
    """In the process that forks: None at the end. In a fork: its arguments."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(channel, _MOST, 1 + _STREAMS)
        if not request:
            return None
        if not os.fork():
            break
        for descriptor in descriptors:
            os.close(descriptor)
    # Between the two is one that waits for the program's end, and says how it was.
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
    arguments, environment = json.loads(request)
    os.environ.clear()
    os.environ.update(environment)
    found: list[str] = arguments
    return found


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a keyboard: the tests end this
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
