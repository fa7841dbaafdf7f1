"""Logging settings: which loggers write, from which level, in which format."""

from typing import Any


def logging_settings(*, level: str, formatter: str) -> dict[str, Any]:
    """Return Django's LOGGING; `level` applies to the gateway's own loggers."""
    console, discard = ["console"], ["discard"]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {"()": "proxy.telemetry.log_format.JSONFormatter"},
            "text": {"()": "proxy.telemetry.log_format.TextFormatter"},
        },
        "filters": {
            "without_rejections": {"()": "proxy.telemetry.log_format.RejectionFilter"},
        },
        "handlers": {
            "console": {
                # A factory: from Python 3.12 on, dictConfig would pass a queue to a `class` that
                # inherits from QueueHandler, and this one makes its own.
                "()": "proxy.telemetry.log_writer.QueuedLogHandler",
                "formatter": formatter,
            },
            # A logger without any handler would write to Python's last-resort handler.
            "discard": {"class": "logging.NullHandler"},
        },
        "root": {"handlers": console, "level": "WARNING"},
        "loggers": {
            "athena": {"handlers": console, "level": level, "propagate": False},
            "django": {"handlers": console, "level": "WARNING", "propagate": False},
            "django.request": {"filters": ["without_rejections"]},
            "uvicorn": {"handlers": console, "level": "WARNING", "propagate": False},
            # axes logs the submitted username, which may be a password typed into the wrong field.
            "axes": {"handlers": discard, "propagate": False},
            # Any client can send an unknown host name; the 400 response is enough.
            "django.security.DisallowedHost": {"handlers": discard, "propagate": False},
        },
    }
