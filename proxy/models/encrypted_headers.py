"""A column of HTTP headers whose secret values are encrypted in the database and plain in memory.

A value that cannot be decrypted with the current secret keeps its stored form, with a marker, so
that saving the row loses nothing. `unreadable_headers` names such headers.
"""

from contextlib import suppress
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import JSONField

from proxy.security.secret_headers import STORED, carries_secret
from proxy.security.vault import SecretUnreadable, seal, unseal

_MARKER = "sealed:"


class StoredSecret(str):
    """A secret as the database holds it, in contrast to one that was just entered.

    `proxy.configuration.editing` does not let stored ones go to another server.
    """

    __slots__ = ()


class EncryptedHeadersField(JSONField):
    def validate(self, value: Any, model_instance: Any) -> None:
        """Reject encrypted values that someone entered: they may be from a dump of the database."""
        super().validate(value, model_instance)
        for name, text in value.items() if isinstance(value, dict) else ():
            if _is_encrypted(text) and not isinstance(text, StoredSecret):
                raise ValidationError(
                    "The value of %(name)r must not start with %(marker)r: encrypted values start "
                    "with it.",
                    params={"name": name[:80], "marker": _MARKER},
                )

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return _map_secrets(super().from_db_value(value, expression, connection), _decrypt)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return super().get_db_prep_value(_map_secrets(value, _encrypt), connection, prepared)

    def value_to_string(self, obj: Any) -> Any:
        """Keep secrets encrypted in the output of `dumpdata`."""
        return _map_secrets(self.value_from_object(obj), _encrypt)


def decrypted(headers: Any) -> Any:
    """Headers with plain secrets, from the form in which the database and dumps hold them."""
    return _map_secrets(headers, _decrypt)


def unreadable_headers(headers: Any) -> list[str]:
    """The headers whose stored value was encrypted with another secret."""
    if not isinstance(headers, dict):
        return []
    return [name for name, value in headers.items() if _is_encrypted(value)]


def _map_secrets(headers: Any, change: Any) -> Any:
    """Change each secret value. Non-objects are returned unchanged."""
    if not isinstance(headers, dict):
        return headers
    return {
        name: change(value) if isinstance(value, str) and carries_secret(name) else value
        for name, value in headers.items()
    }


def _encrypt(value: str) -> str:
    return value if value == STORED or _is_encrypted(value) else _MARKER + seal(value)


def _decrypt(value: str) -> str:
    with suppress(SecretUnreadable):
        value = unseal(value.removeprefix(_MARKER)) if _is_encrypted(value) else value
    return StoredSecret(value)


def _is_encrypted(value: object) -> bool:
    return isinstance(value, str) and value.startswith(_MARKER)
