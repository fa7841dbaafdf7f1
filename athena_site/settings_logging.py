"""Settings of the log: who is heard, how loud, and in which form."""

from typing import Any


def lines(*, level: str, formatter: str) -> dict[str, Any]:
    """Django's LOGGING; `level` is that of the gateway's own loggers."""
    heard, unheard = ["console"], ["nowhere"]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {"()": "proxy.telemetry.log_format.JSONFormatter"},
            "text": {"()": "proxy.telemetry.log_format.TextFormatter"},
        },
        "handlers": {
            "console": {
                "class": "proxy.telemetry.log_writer.QueuedLogHandler",
                "formatter": formatter,
            },
            # A logger with no handler at all would be heard on the last resort's.
            "nowhere": {"class": "logging.NullHandler"},
        },
        "root": {"handlers": heard, "level": "WARNING"},
        "loggers": {
            "athena": {"handlers": heard, "level": level, "propagate": False},
            "django": {"handlers": heard, "level": "WARNING", "propagate": False},
            "uvicorn": {"handlers": heard, "level": "WARNING", "propagate": False},
            # It writes what was typed for a name.
            "axes": {"handlers": unheard, "propagate": False},
            # Anybody can send a strange host name; it is answered with 400 and no more.
            "django.security.DisallowedHost": {"handlers": unheard, "propagate": False},
        },
    }
