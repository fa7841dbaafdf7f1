"""Measures keys, routing and audit as parts of a request, and the cost of keeping transcripts.

    python -m bench.share        the parts of a request

The functions of each part are timed in the gateway inside this process: CPU time of the event
loop's thread, the median of many requests, minus the cost of timing. Work of other threads, which
write rows and the log and watch the configuration, counts as audit. Transcripts are measured with
two gateways that alternate.
"""

import importlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import wraps
from statistics import median
from typing import Any

from bench import inside
from bench.load import Load
from bench.results import Results, Share
from bench.scenarios import SCENARIOS
from bench.servers import Server, gateway

KEYS, ROUTING, AUDIT, WRITING = "keys and limits", "routing", "audit", "audit, writing"
FUNCTIONS = (
    (KEYS, "proxy.serving.admission", "authenticate"),
    (KEYS, "proxy.serving.views", "check_again"),
    (KEYS, "proxy.serving.views", "check_models"),
    (KEYS, "proxy.serving.quota", "Quota.acquire"),
    (KEYS, "proxy.serving.quota", "Quota.release"),
    (ROUTING, "proxy.serving.retry", "resolve"),
    (AUDIT, "proxy.serving.views", "start_audit"),
    (AUDIT, "proxy.audit.exchange", "Exchange.add_read"),
    (AUDIT, "proxy.audit.exchange", "Exchange.add_sent"),
    (AUDIT, "proxy.audit.exchange", "Exchange.update_usage"),
    (AUDIT, "proxy.serving.runtime", "exchange_metrics.count_exchange"),
    (AUDIT, "proxy.audit.recorder", "AuditRecorder.record_start"),
    (AUDIT, "proxy.audit.recorder", "AuditRecorder.record_end"),
)
"""Part, and the module and name by which the function is called."""
REQUESTS = 400
ROUNDS = 12
BLOCK_SECONDS = 1.5
# Rows are written once per second, and a batch takes a moment.
SETTLE_SECONDS = 1.5


class Stopwatch:
    """Measures seconds by part; a part called inside another one counts as the outer one."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._is_running = False

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._is_running:
                return function(*args, **kwargs)
            self._is_running = True
            began = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[part] += time.thread_time() - began
                self.calls[part] += 1
                self._is_running = False

        return call

    def overhead(self) -> float:
        """Seconds that timing adds to each call."""
        empty = Stopwatch()
        nothing = empty.timed("nothing", lambda: None)
        for _ in range(10_000):
            nothing()
        return empty.seconds["nothing"] / empty.calls["nothing"]

    def attach(self) -> None:
        """Start timing the functions of every part."""
        for part, module, name in FUNCTIONS:
            *holders, attribute = name.split(".")
            holder: Any = importlib.import_module(module)
            for entry in holders:
                holder = getattr(holder, entry)
            setattr(holder, attribute, self.timed(part, getattr(holder, attribute)))


def parts_of_a_request() -> dict[str, float]:
    """Milliseconds of a request in B, by part."""
    parts: dict[str, float] = {}

    async def main() -> None:
        async with inside.gateway() as ask:
            watch = Stopwatch()
            watch.attach()
            series: dict[str, list[float]] = {KEYS: [], ROUTING: [], AUDIT: []}
            overhead = watch.overhead()
            for number in range(-REQUESTS // 10, REQUESTS):
                if number == 0:  # warmed up
                    other_threads = time.process_time() - time.thread_time()
                watch.seconds.clear()
                watch.calls.clear()
                await ask("B")
                for part, seconds in series.items():
                    seconds.append(watch.seconds[part] - watch.calls[part] * overhead)
            from proxy.serving.runtime import runtime

            await runtime.audit.flush()
            other_threads = time.process_time() - time.thread_time() - other_threads
            parts.update({part: median(seconds) * 1000 for part, seconds in series.items()})
            parts[WRITING] = other_threads / REQUESTS * 1000

    with inside.configured():
        inside.run(main)
    return parts


def measure_audit(load: Load, upstream: Server, results: Results) -> None:
    """Measure what keeping every transcript adds to B."""
    scenario, shares = SCENARIOS["B"], []
    with (
        gateway(upstream, sampling=0.0, name="none kept") as none,
        gateway(upstream, sampling=1.0, name="all kept") as every,
    ):
        rate = load.block(none, scenario, 200).timing.requests_per_second
        load.block(every, scenario, 200)
        requests = max(1, int(rate * BLOCK_SECONDS))
        for number in range(ROUNDS):
            cpu = {}
            for server in (none, every) if number % 2 == 0 else (every, none):
                block = load.block(server, scenario, requests, settle=SETTLE_SECONDS)
                cpu[server.name] = block.cpu
            shares.append(cpu["all kept"] / cpu["none kept"] - 1)
    results.audit = Share(median(shares), min(shares), max(shares))


def main() -> None:
    parts = parts_of_a_request()
    for part, milliseconds in parts.items():
        print(f"{part:<20}{milliseconds:>8.3f} ms")
    print(f"{'total':<20}{sum(parts.values()):>8.3f} ms")


if __name__ == "__main__":
    main()
