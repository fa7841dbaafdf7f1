"""A column of headers whose secret values are sealed in the database, and plain in memory.

What cannot be opened with the present secret stays as it is stored, marked, so that saving the row
loses nothing; `unreadable` names such headers.
"""

from typing import Any

from django.db.models import JSONField

from proxy.security.secret_headers import STORED, carries_secret
from proxy.security.vault import SecretUnreadable, seal, unseal

_MARK = "sealed:"


class SealedHeaders(JSONField):
    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return _each(super().from_db_value(value, expression, connection), _opened)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return super().get_db_prep_value(_each(value, _closed), connection, prepared)

    def value_to_string(self, obj: Any) -> Any:
        """What `dumpdata` writes: a dump opens nothing."""
        return _each(self.value_from_object(obj), _closed)


def unreadable(headers: Any) -> list[str]:
    """The headers whose stored value was sealed with another secret."""
    if not isinstance(headers, dict):
        return []
    return [name for name, value in headers.items() if _is_sealed(value)]


def _each(headers: Any, change: Any) -> Any:
    """The headers with each secret changed. What is no object is left as it is."""
    if not isinstance(headers, dict):
        return headers
    return {
        name: change(value) if isinstance(value, str) and carries_secret(name) else value
        for name, value in headers.items()
    }


def _closed(value: str) -> str:
    return value if value == STORED or _is_sealed(value) else _MARK + seal(value)


def _opened(value: str) -> str:
    try:
        return unseal(value.removeprefix(_MARK)) if _is_sealed(value) else value
    except SecretUnreadable:
        return value


def _is_sealed(value: object) -> bool:
    return isinstance(value, str) and value.startswith(_MARK)
