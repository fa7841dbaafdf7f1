"""Log records → lines without secrets: JSON for machines, text for people at a terminal.

A record's line has the time in UTC, the level, the logger and the message, the id of the request
that it is about, and what else the record has in `fields`, which docs/metrics.md lists. Whatever
wrote the record, and tracebacks too: secrets that are known or look like one are taken out, and
control characters are escaped, so that nobody's text can forge a line or steer a terminal.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache

import msgspec

from proxy.security.redaction import Redactor

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Of the request that is being answered."""
# A text, not the exchange: a pooled connection keeps the context in which it was opened.

_redactors = [Redactor()]
# Escapes all that is not ASCII.
_encode = json.JSONEncoder(default=str, separators=(",", ":")).encode
_encode_plain = msgspec.json.Encoder(enc_hook=str).encode  # a fifth of the work


def hide(secrets: Iterable[str]) -> None:
    """Keep these out of every line, whatever they look like."""
    _redactors[0] = Redactor(secrets)


class LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = vars(record).get("fields", {})
        message, trace = record.getMessage(), _trace(record)
        return self.line(record.created, record.levelname, record.name, message, fields, trace)

    def line(
        self,
        moment: float,
        level: str,
        name: str,
        message: str,
        fields: Mapping[str, object],
        trace: str = "",
    ) -> str:
        """What is written, of all that a record is made for."""
        second, fraction = divmod(moment, 1)
        entry: dict[str, object] = {
            "time": f"{_second(second)}.{int(fraction * 1000):03}Z",
            "level": level,
            "logger": name,
            "message": message,
        }
        texts = [message, trace]  # and all that is not the gateway's own in every line
        if asked := request_id.get():
            entry["request_id"] = asked
        for field, value in fields.items():
            if value is not None:
                entry[field] = value
                if isinstance(value, str):
                    texts.append(value)
        if trace:
            entry["exception"] = trace
        redactor = _redactors[0]
        if not redactor.is_clean_text("\0".join(texts)):  # one search for nearly every line
            for field, value in entry.items():
                if isinstance(value, str):
                    entry[field] = redactor.redact_text(value)
        return self.written(entry)

    def written(self, entry: dict[str, object]) -> str:
        """Fields in their order, without secrets, as a line."""
        raise NotImplementedError


class JSONFormatter(LineFormatter):
    def written(self, entry: dict[str, object]) -> str:
        try:
            line = _encode_plain(entry).decode("ascii")
        except (UnicodeError, msgspec.MsgspecError, TypeError, OverflowError):
            line = _encode(entry)
        return line.replace("\x7f", "\\u007f")


class TextFormatter(LineFormatter):
    def written(self, entry: dict[str, object]) -> str:
        trace = str(entry.pop("exception", ""))
        message = _printable(str(entry.pop("message")))
        head = [entry.pop("time"), entry.pop("level"), entry.pop("logger")]
        head.append(entry.pop("request_id", None))
        fields = (f"{name}={_shown(value)}" for name, value in entry.items())
        line = " ".join([*(str(part) for part in head if part), message, *fields])
        # Indented: a line that begins with a time is one of the gateway's own.
        return line + "".join(f"\n    {_printable(part)}" for part in trace.split("\n") if part)


@lru_cache(2)
def _second(moment: float) -> str:
    """The time in UTC: thousands of lines may have the same."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")[:-6]


def _trace(record: logging.LogRecord) -> str:
    if not record.exc_info and not record.stack_info:
        return ""
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
