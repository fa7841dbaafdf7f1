"""One request and its answer, as the gateway remembers it: who, what, how, and how it ended."""

import logging
import secrets
from collections import Counter
from collections.abc import Iterable
from time import perf_counter

from formats import (
    Event,
    MessageEnd,
    MessageFailed,
    MessageStart,
    Notice,
    StopReason,
    ToolCallEnd,
    Usage,
)
from proxy.errors import GatewayError
from proxy.routing import Route
from proxy.snapshot import Key

logger = logging.getLogger("athena.exchange")


class Exchange:
    def __init__(self, dialect: str) -> None:
        self.token = secrets.token_hex(12)
        self.dialect = dialect
        self.started = perf_counter()
        self.key: Key | None = None
        self.model = ""
        self.is_streaming = False
        self.route: Route | None = None
        self.served_by: str | None = None
        self.attempts: list[GatewayError] = []
        """The failures before the attempt that decided."""
        self.notices: Counter[Notice] = Counter()
        self.calls = 0
        self.stop_reason: StopReason | None = None
        self.usage = Usage()
        self.has_client = True
        self.failure: MessageFailed | None = None
        self.error: GatewayError | None = None

    @property
    def request_id(self) -> str:
        return f"req_{self.token}"

    @property
    def message_id(self) -> str:
        return f"msg_{self.token}"

    def observe(self, events: Iterable[Event]) -> None:
        """Take note of what is being delivered."""
        for event in events:
            kind = type(event)
            if kind is ToolCallEnd:
                self.calls += 1
            elif isinstance(event, Notice):
                self.notices[event] += 1
            elif isinstance(event, MessageStart):
                self.usage = self.usage.updated(event.usage)
            elif isinstance(event, MessageFailed):
                self.failure = event
            elif isinstance(event, MessageEnd):
                self.stop_reason = event.stop_reason
                self.usage = self.usage.updated(event.usage)

    @property
    def outcome(self) -> str:
        """One word for how it ended."""
        if not self.has_client:
            return "client_disconnect"
        if self.error is not None:
            return "client_error" if self.error.source == "client" else "failed"
        return "ok" if self.failure is None else "failed"

    def close(self, status: int) -> None:
        """Write one line about it."""
        if not self.model:
            return
        route, failure = self.route, self.error or self.failure
        logger.info(
            "%s %d %s model=%s upstream=%s format=%s calls=%d stop=%s in=%s out=%s %.0fms%s%s",
            self.request_id,
            status,
            self.outcome,
            _shown(self.model),
            f"{route.upstream.name}:{_shown(route.model)}" if route else "-",
            route.format.format if route else "-",
            self.calls,
            self.stop_reason or "-",
            "-" if self.usage.input is None else self.usage.input,
            "-" if self.usage.output is None else self.usage.output,
            (perf_counter() - self.started) * 1000,
            f" error={failure.kind}" if failure else "",
            f" notices={','.join(sorted({n.code for n in self.notices}))}" if self.notices else "",
        )


def _shown(text: str) -> str:
    """Text of a client's, short and on one line."""
    return "".join(char if char.isprintable() and char != " " else "�" for char in text[:80]) or "-"
