"""Date formats of all pages: day first, 24-hour clock, UTC."""

DATE_FORMAT = "j M Y"
DATETIME_FORMAT = "j M Y H:i:s"
TIME_FORMAT = "H:i:s"
