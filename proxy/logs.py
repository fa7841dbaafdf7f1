"""Log records → lines without secrets: JSON for machines, text for people at a terminal.

A record's line has the time in UTC, the level, the logger and the message, the id of the request
that it is about, and what else the record has in `fields`, which docs/metrics.md lists. Whatever
wrote the record, and tracebacks too: secrets that are known or look like one are taken out, and
control characters are escaped, so that nobody's text can forge a line or steer a terminal.
"""

import json
import logging
from collections.abc import Iterable
from contextvars import ContextVar
from datetime import UTC, datetime

from proxy.redaction import Redactor

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Of the request that is being answered."""
# A text, not the exchange: a pooled connection keeps the context in which it was opened.

_redactors = [Redactor()]
_encode = json.JSONEncoder(default=str).encode  # escapes all that is not ASCII


def hide(secrets: Iterable[str]) -> None:
    """Keep these out of every line, whatever they look like."""
    _redactors[0] = Redactor(secrets)


class JSONFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return _encode(_entry(record)).replace("\x7f", "\\u007f")


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = _entry(record)
        trace = str(entry.pop("exception", ""))
        message = _printable(str(entry.pop("message")))
        head = [entry.pop("time"), entry.pop("level"), entry.pop("logger")]
        head.append(entry.pop("request_id", None))
        fields = (f"{name}={_shown(value)}" for name, value in entry.items())
        line = " ".join([*(str(part) for part in head if part), message, *fields])
        # Indented: a line that begins with a time is one of the gateway's own.
        return line + "".join(f"\n    {_printable(part)}" for part in trace.split("\n") if part)


def _entry(record: logging.LogRecord) -> dict[str, object]:
    """A record's fields in the order in which they are written, without secrets."""
    moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    fields = vars(record).get("fields", {})
    entry: dict[str, object] = {
        "time": moment.replace("+00:00", "Z"),
        "level": record.levelname,
        "logger": record.name,
        "message": record.getMessage(),
        "request_id": request_id.get() or None,
        **fields,
        "exception": _trace(record) or None,
    }
    entry = {name: value for name, value in entry.items() if value is not None}
    texts = {name: value for name, value in entry.items() if isinstance(value, str)}
    redact, together = _redactors[0].text, "\0".join(texts.values())
    if redact(together) != together:  # one search is enough for nearly every line
        entry |= {name: redact(value) for name, value in texts.items()}
    return entry


def _trace(record: logging.LogRecord) -> str:
    parts = [record.stack_info or ""]
    if record.exc_info:
        parts.append(_plain.formatException(record.exc_info))
    return "\n".join(filter(None, parts))


def _shown(value: object) -> str:
    """A field's value as one word, or in quotes."""
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    is_word = text and text.isprintable() and not {" ", '"', "="} & set(text)
    return text if is_word else json.dumps(text)


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


_plain = logging.Formatter()
