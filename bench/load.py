"""Puts load on a server: blocks of requests with their cost, or streams that stay open."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.processes import cpu_seconds
from bench.scenarios import Scenario
from bench.servers import Server


class Timing(msgspec.Struct, frozen=True):
    """Output of the load generator; times in milliseconds."""

    requests: int
    failed: int
    seconds: float
    requests_per_second: float
    events_per_second: float
    p50: float
    p90: float
    p99: float
    first_event_p50: float
    first_event_p99: float


@dataclass(frozen=True, slots=True)
class Block:
    """A series of requests of one scenario to one server."""

    cpu: float
    """CPU time of the server per request, in milliseconds."""
    timing: Timing


@dataclass(frozen=True, slots=True)
class Load:
    """The load generator, with the request bodies by letter."""

    program: Path
    bodies: dict[str, Path]

    def _command(self, server: Server, letter: str, *options: str) -> list[str]:
        headers = [word for header in server.headers for word in ("-H", header)]
        where = [str(server.port), server.dialect.path, str(self.bodies[letter])]
        return [str(self.program), "-m", server.dialect.event, *options, *headers, *where]

    def block(
        self,
        server: Server,
        scenario: Scenario,
        requests: int,
        *,
        connections: int | None = None,
        settle: float = 0.0,
    ) -> Block:
        """Send requests; raises ServerFailed if the server has ended.

        `settle` is the number of seconds after the last answer in which CPU time still counts.
        """
        dialect = server.dialect
        command = self._command(
            server,
            scenario.letter,
            *("-c", str(connections or scenario.connections)),
            *("-n", str(requests)),
            *("-e", dialect.stream_end if scenario.streamed else dialect.whole_end),
        )
        before = cpu_seconds(server.pid)
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        time.sleep(settle)
        server.require_running()
        used = cpu_seconds(server.pid) - before
        timing = msgspec.json.decode(done.stdout, type=Timing)
        return Block(cpu=used * 1000 / requests, timing=timing)

    @contextmanager
    def open_streams(self, server: Server, letter: str, streams: int) -> Iterator[int]:
        """Keep streams open inside a `with` block; yields the number of streams that started."""
        command = self._command(server, letter, "-s", "-c", str(streams))
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin
            assert process.stdout
            try:
                yield int(process.stdout.readline())
            finally:
                process.stdin.close()
