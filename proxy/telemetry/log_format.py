"""Log formatters: JSON lines for machines, text for a terminal, both without secrets.

A line has the time in UTC, level, logger, message, request id and the record's `fields`, which
docs/metrics.md lists. In all of these, tracebacks included, known and likely secrets are redacted
and control characters are escaped, so that no text can forge a line or control a terminal.
"""

import json
import logging
from collections.abc import Iterable
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache

import msgspec

from proxy.security.redaction import Redactor

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Id of the request that is being answered."""
# Only the id, not the exchange: a pooled connection keeps the context in which it was opened.

_redactors = [Redactor()]
# Escapes everything that is not ASCII.
_encode = json.JSONEncoder(default=str, separators=(",", ":")).encode
_encode_plain = msgspec.json.Encoder(enc_hook=str).encode  # five times as fast


def redact_in_log(secrets: Iterable[str]) -> None:
    """Set the known secrets, which are redacted in every line."""
    _redactors[0] = Redactor(secrets)


class RejectionFilter(logging.Filter):
    """Drops the traceback of a rejected request: a 403 is not a defect."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.ERROR:
            record.exc_info = record.exc_text = None
        return True


class LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        second, fraction = divmod(record.created, 1)
        message, trace = record.getMessage(), _trace(record)
        entry: dict[str, object] = {
            "time": f"{_second(second)}.{int(fraction * 1000):03}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": message,
        }
        if current := request_id.get():
            entry["request_id"] = current
        # Everything that may contain a secret; the fields above are the gateway's own.
        texts = [message, trace]
        for name, value in vars(record).get("fields", {}).items():
            if value is not None:
                entry[name] = value
                if isinstance(value, str):
                    texts.append(value)
        if trace:
            entry["exception"] = trace
        redactor = _redactors[0]
        if not redactor.is_clean_text("\0".join(texts)):  # one search is enough for most lines
            for name, value in entry.items():
                if isinstance(value, str):
                    entry[name] = redactor.redact_text(value)
        return self.render(entry)

    def render(self, entry: dict[str, object]) -> str:
        """Render redacted fields, in their order, as a line."""
        raise NotImplementedError


class JSONFormatter(LineFormatter):
    def render(self, entry: dict[str, object]) -> str:
        try:
            line = _encode_plain(entry).decode("ascii")
        except (UnicodeError, msgspec.MsgspecError, TypeError, OverflowError):
            line = _encode(entry)
        return line.replace("\x7f", "\\u007f")


class TextFormatter(LineFormatter):
    def render(self, entry: dict[str, object]) -> str:
        trace = str(entry.pop("exception", ""))
        message = _printable(str(entry.pop("message")))
        head = [entry.pop("time"), entry.pop("level"), entry.pop("logger")]
        head.append(entry.pop("request_id", None))
        fields = (f"{name}={_word(value)}" for name, value in entry.items())
        line = " ".join([*(str(part) for part in head if part), message, *fields])
        # Indented, so that only the gateway's own lines start with a time.
        return line + "".join(f"\n    {_printable(part)}" for part in trace.split("\n") if part)


@lru_cache(2)
def _second(moment: float) -> str:
    """Cached, because thousands of lines may have the same second."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")[:-6]


def _trace(record: logging.LogRecord) -> str:
    if not record.exc_info and not record.stack_info:
        return ""
    parts = [record.stack_info or ""]
    if record.exc_info:
        parts.append(_plain.formatException(record.exc_info))
    return "\n".join(filter(None, parts))


def _word(value: object) -> str:
    """Render a value as one word, or quoted."""
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    is_word = text and text.isprintable() and not {" ", '"', "="} & set(text)
    return text if is_word else json.dumps(text)


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


_plain = logging.Formatter()
