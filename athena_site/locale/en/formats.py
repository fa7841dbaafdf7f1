"""Dates as all pages show them: the day first, 24 hours, in UTC."""

DATE_FORMAT = "j M Y"
DATETIME_FORMAT = "j M Y H:i:s"
TIME_FORMAT = "H:i:s"
