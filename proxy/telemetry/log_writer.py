"""Where the log's lines go: to standard error, by a thread of its own.

Whoever reads standard error may stop to: a pipe that is full blocks its writer, and that must never
be the one who serves. Lines wait in a bounded queue; those for which there is no room are dropped
and counted, and the log says so when it flows again. What waits is written before the process ends,
if somebody reads it.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Mapping
from time import monotonic, time

from proxy.telemetry.log_format import LineFormatter

_MOST_WAITING = 8 * 1024 * 1024
"""Characters: about 20,000 lines, or the whole log of some minutes."""
_FLUSHING = 1.0
_GATHERING = 0.05
"""Seconds that a line waits for others: a write for each would wake the thread for each."""


class Sink:
    def __init__(self, most: int = _MOST_WAITING, descriptor: int = 2) -> None:
        self.dropped = 0
        self._descriptor = descriptor
        self._most = most
        self._lines: deque[str] = deque()
        self._size = 0
        self._untold = 0  # dropped since the last line that said so
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._is_writing = False
        self._hurries = threading.Event()  # somebody waits for the lines

    def put(self, line: str) -> None:
        """Have a line written some time, or drop it."""
        with self._lock:
            if self._size + len(line) > self._most:
                self.dropped += 1
                self._untold += 1
                return
            is_first = not self._lines
            self._lines.append(line)
            self._size += len(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()
            if is_first:
                self._changed.notify_all()

    def flush(self, seconds: float = _FLUSHING) -> None:
        """Wait until all is written, but not for ever."""
        deadline = monotonic() + seconds
        self._hurries.set()
        with self._changed:
            while self._lines or self._is_writing:
                if not self._changed.wait(deadline - monotonic()):
                    return

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._hurries.clear()
                self._changed.notify_all()
                while not self._lines:
                    self._changed.wait()
            self._hurries.wait(_GATHERING)
            with self._changed:
                self._is_writing = True
                lines, self._size, untold = list(self._lines), 0, self._untold
                self._lines.clear()
                self._untold = 0
            if untold:
                lines.append(_confession(untold))
            try:
                self._write("\n".join([*lines, ""]))
            except OSError:  # nobody will ever read it
                with self._changed:
                    self.dropped += len(lines)

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        # Not through sys.stderr, whose lock the end of the process would wait for.
        while data:
            data = data[os.write(self._descriptor, data) :]


def _confession(count: int) -> str:
    record = logging.LogRecord(
        "athena.log", logging.WARNING, __file__, 0, "%d lines were dropped here", (count,), None
    )
    formatters = (handler.formatter for handler in _handlers if handler.formatter is not None)
    return next(formatters, logging.Formatter()).format(record)


def tell(logger: logging.Logger, message: str, fields: Mapping[str, object]) -> None:
    """Write a line at INFO, of which every request has one.

    Past logging's own ways, which cost more than the line; nobody else listens to these.
    """
    formatter = _handlers[-1].formatter if _handlers else None
    if isinstance(formatter, LineFormatter):
        sink.put(formatter.line(time(), "INFO", logger.name, message, fields))
    else:
        logger.info("%s", message, extra={"fields": fields})


class SinkHandler(logging.Handler):
    """Formats a record where it was made, for the request's sake; the sink does the rest."""

    def __init__(self) -> None:
        super().__init__()
        _handlers.append(self)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sink.put(self.format(record))
        except Exception:  # noqa: BLE001  as in every handler of logging's
            self.handleError(record)

    def flush(self) -> None:
        sink.flush()


_handlers: list[SinkHandler] = []
sink = Sink()
