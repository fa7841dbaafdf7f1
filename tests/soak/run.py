"""One soak: warm-up, pause, load, pause; then resources must be as before, and every row stored."""

import asyncio
import re
import resource
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.soak.clients import Clients
from tests.soak.measure import Size, family, size, slope
from tests.soak.upstream import FaultyUpstream
from tests.support.chat import ask
from tests.support.database import read_rows
from tests.support.gateway import PRODUCT_SETTINGS, Gateway
from tests.support.metrics import scrape, value
from tests.support.ports import free_port

_GROWTH, _ALLOWANCE = 0.10, 12.0
"""Allowed growth of resident memory, as a share and in MiB, after the warm-up: the
allocator keeps pages, and the second load is longer than the first."""
_SLOPE = 1.5
"""MiB a minute in the second half of the load; checked if that is long enough."""
_LONG_ENOUGH = 180.0
_MORE_THREADS = 3  # pools start theirs when they are needed
_MORE_DESCRIPTORS = 12  # idle connections to the upstream, which are kept for some time
_QUIET_GAUGES = ("athena_open_streams", "athena_buffer_bytes", "athena_audit_queue_depth")
_TROUBLE = re.compile(r'Traceback|"level": ?"(?:ERROR|CRITICAL)"|never (?:awaited|retrieved)')


@dataclass
class Report:
    database: str
    lines: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def check(self, holds: bool, line: str) -> None:
        self.lines.append(f"{'ok ' if holds else 'BAD'} {line}")
        if not holds:
            self.faults.append(line)

    def __str__(self) -> str:
        count = len(self.faults)
        verdict = f"{count} fault{'s' * (count > 1)}" if count else "flat"
        return "\n".join([f"soak on {self.database}: {verdict}", *self.lines])


class Soak:
    def __init__(
        self,
        folder: Path,
        *,
        seconds: float,
        streams: int,
        seed: int,
        workers: int = 2,
        database_url: str = "",
    ) -> None:
        self._seconds, self._streams, self._seed = seconds, streams, seed
        self._upstream = FaultyUpstream(seed)
        environment = {"DATABASE_URL": database_url} if database_url else {}
        self._gateway = Gateway(
            folder,
            OPENROUTER_API_KEY="sk-or-canary-of-the-soak",
            OPENROUTER_BASE_URL=self._upstream.url,
            ATHENA_WORKERS=str(workers),
            **environment,
            **PRODUCT_SETTINGS,
        )
        self._samples: dict[int, list[tuple[float, float]]] = {}
        self._clients: list[Clients] = []
        self.report = Report("PostgreSQL" if database_url else "SQLite")

    def run(self) -> Report:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
        try:
            self._gateway.start()
            self._configure()
            self._soak()
            self._check_places()
            code = self._gateway.stop()
            self.report.check(code == 0, f"exit code {code}")
            self._check_rows()
            self._check_log()
        finally:
            process = self._gateway.process
            if process is not None and process.poll() is None:
                process.kill()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return self.report

    def _edit(self, code: str) -> None:
        """Edit the configuration, and wait until the edit is live in every worker."""
        self._gateway.edit(code)
        ((number,),) = self._rows("SELECT number FROM proxy_configurationversion")
        deadline = time.monotonic() + 60
        while value(scrape(self._gateway.url), "athena_config_version") < number:
            assert time.monotonic() < deadline, "the configuration did not become live"
            time.sleep(0.2)

    def _configure(self) -> None:
        self._edit(
            "s = GatewaySettings.objects.get(); s.drain_time = 5; s.capture_content = True;"
            " s.ping_after = 1; s.open_after = 1; s.save()\n"
            "u = Upstream.objects.get(name='openrouter'); u.idle_timeout = 4;"
            " u.first_byte_timeout = 4; u.save()\n"
            f"r = Upstream.objects.create(name='refused', base_url='http://127.0.0.1:{free_port()}')\n"
            "ModelRoute.objects.create(pattern='refused-*', upstream=r)\n"
            "ModelRoute.objects.create(pattern='claude-x-*', upstream=u, upstream_model='')"
        )

    def _soak(self) -> None:
        warm = min(60.0, self._seconds / 5)
        self._load("warm", warm)
        self._wait_until_quiet()
        before = self._sizes()
        self._load("load", self._seconds - warm)
        self._wait_until_quiet()
        time.sleep(min(60.0, self._seconds / 10))
        self._compare(before, self._sizes())
        samples = scrape(self._gateway.url)
        for name in _QUIET_GAUGES:
            left = value(samples, name)
            self.report.check(left == 0, f"{name} {left:g}")
        for name in ("athena_audit_dropped_total", "athena_log_dropped_total"):
            lost = value(samples, name)
            self.report.check(lost == 0, f"{name} {lost:g}")
        lag = value(samples, "athena_loop_lag_seconds_sum")
        ticks = value(samples, "athena_loop_lag_seconds_count") or 1
        late = ticks - value(samples, "athena_loop_lag_seconds_bucket", le="1.0")
        self.report.lines.append(
            f"    loop lag: mean {lag / ticks * 1000:.1f} ms, {late:g} over 1 s"
        )

    def _load(self, prefix: str, seconds: float) -> None:
        clients = Clients(self._gateway.port, Random(f"{self._seed}{prefix}"), prefix=prefix)
        self._clients.append(clients)

        async def load() -> None:
            watching = asyncio.create_task(self._sample())
            await clients.run(self._streams, seconds)
            watching.cancel()

        began = time.monotonic()
        asyncio.run(load())
        took = time.monotonic() - began
        total = clients.seen.total()
        self.report.lines.append(f"    {prefix}: {total} requests in {took:.0f} s")
        endless = {kind: n for kind, n in clients.seen.items() if kind.endswith("no end")}
        self.report.check(not endless, f"{prefix}: requests without an end: {endless or 'none'}")
        defects = {kind: n for kind, n in clients.seen.items() if kind.endswith("a defect")}
        self.report.check(
            not defects, f"{prefix}: internal errors of the gateway: {defects or 'none'}"
        )
        if total < 5000:
            return
        self.report.lines.append(f"    {prefix}: {dict(sorted(clients.seen.items()))}")

    async def _sample(self) -> None:
        began = time.monotonic()
        self._samples.clear()
        while True:
            for pid, memory in self._sizes().items():
                self._samples.setdefault(pid, []).append((time.monotonic() - began, memory.rss))
            await asyncio.sleep(2)

    def _sizes(self) -> dict[int, Size]:
        assert self._gateway.process is not None
        return {pid: size(pid) for pid in family(self._gateway.process.pid)}

    def _wait_until_quiet(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            time.sleep(1)
            samples = scrape(self._gateway.url)
            if not any(value(samples, name) for name in _QUIET_GAUGES):
                time.sleep(2)
                return

    def _compare(self, before: dict[int, Size], after: dict[int, Size]) -> None:
        same = before.keys() == after.keys()
        self.report.check(same, f"processes: {sorted(before)} → {sorted(after)}")
        for pid in before.keys() & after.keys():
            warm, end = before[pid], after[pid]
            flat = (
                end.rss <= warm.rss * (1 + _GROWTH) + _ALLOWANCE
                and end.threads <= warm.threads + _MORE_THREADS
                and end.descriptors <= warm.descriptors + _MORE_DESCRIPTORS
            )
            self.report.check(flat, f"process {pid}: {warm} → {end}")
            points = self._samples.get(pid, [])
            rise = slope(points[len(points) // 2 :]) * 60
            is_long = bool(points) and points[-1][0] / 2 >= _LONG_ENOUGH
            line = f"process {pid}: {rise:+.2f} MiB a minute in the second half of the load"
            if is_long:
                self.report.check(rise <= _SLOPE, f"{line}, of {_SLOPE} at most")
            else:
                needed = f"judged when that half has {_LONG_ENOUGH:.0f} s"
                self.report.lines.append(f"    {line} ({needed})")

    def _check_places(self) -> None:
        """Limit the key to one stream: requests must succeed, so no slot was leaked."""
        self._edit("k = ClientKey.objects.get(); k.max_streams = 1; k.save()")
        seen: Counter[int] = Counter()
        for _ in range(20):
            with self._gateway.client() as client:
                seen[client.post("/v1/messages", json=ask("fine/model")).status_code] += 1
        self.report.check(
            set(seen) == {200}, f"requests one at a time, with one slot: {dict(seen)}"
        )

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        url = self._gateway.environment["DATABASE_URL"]
        return [tuple(row.values()) for row in read_rows(url, query)]

    def _check_rows(self) -> None:
        rows = self._rows("SELECT request_id, model, outcome, upstream_model FROM proxy_exchange")
        stored = Counter(row[0] for row in rows)
        twice = sum(count > 1 for count in stored.values())
        answered = [name for clients in self._clients for name in clients.request_ids]
        missing = [name for name in answered if name not in stored]
        asked = {name for name in self._upstream.scripts.models if not name.startswith("fine")}
        # The upstream knows a request by its own name for the model.
        unknown = sorted(asked - {row[1] for row in rows} - {row[3] for row in rows})
        self.report.lines.append(f"    rows: {dict(Counter(row[2] for row in rows))}")
        self.report.check(not twice, f"{len(rows)} rows, {twice} of them twice")
        self.report.check(not missing, f"{len(answered)} answered, {_named(missing)} without a row")
        self.report.check(
            not unknown, f"{len(asked)} reached the upstream, {_named(unknown)} without a row"
        )

    def _check_log(self) -> None:
        lines = self._gateway.log.splitlines()
        bad = [line for line in lines if _TROUBLE.search(line)]
        self.report.check(not bad, f"{len(lines)} log lines, {len(bad)} with errors")
        self.report.lines += [f"      {line[:1500]}" for line in bad[:5]]


def _named(lost: list[str]) -> str:
    """Return the number of names and the first of them."""
    return f"{len(lost)} ({', '.join(lost[:10])})" if lost else "0"
