"""Applies the secrets that a document refers to: stored ones, or environment variables.

The value of a secret never appears in a document, a problem or a remark. A remark tells the
operator what to do before the row works, such as entering a key.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError

from proxy.configuration.document.parse import Entry, quote
from proxy.configuration.document.schema import STORED
from proxy.models import ClientKey, Upstream
from proxy.models.keys import digest_of
from proxy.security.key_variables import read_key_variable
from proxy.security.secret_headers import carries_secret
from proxy.validators import validate_variable


def apply_credentials(
    row: Any, entry: Entry, remarks: list[str], now: datetime
) -> Iterator[tuple[str, str]]:
    """Set the secrets and the revocation of a row; yields the problems as field and message."""
    if isinstance(row, Upstream):
        name = f"The upstream {quote(row.name)}"
        if "key" not in entry.invalid:
            _apply_key(row, entry.values["key"], name, remarks)
        if "headers" not in entry.invalid:
            yield from _apply_headers(row, entry.values["headers"], name, remarks)
    elif isinstance(row, ClientKey) and "revoked" not in entry.invalid:
        if row.revoked_at is None:
            row.revoked_at = now if entry.values["revoked"] else None
        elif not entry.values["revoked"]:
            remarks.append(f"The key {quote(row.label)} ({row.prefix}…) stays revoked.")


def _apply_key(row: Upstream, key: str | None, name: str, remarks: list[str]) -> None:
    if key == STORED:
        row.key_variable = ""
        if not row.sealed_key:
            remarks.append(f"{name} has no stored key here. Enter it.")
        return
    if row.sealed_key:
        remarks.append(f"{name}: its stored key was deleted.")
    row.sealed_key, row.key_variable = "", (key or "").removeprefix("$")
    if key and not read_key_variable(row.key_variable):
        remarks.append(f"{name}: the environment variable {row.key_variable} is not set here.")


def _apply_headers(
    row: Upstream, headers: dict[str, Any], name: str, remarks: list[str]
) -> Iterator[tuple[str, str]]:
    stored = row.headers if isinstance(row.headers, dict) else {}
    row.headers = {}
    for header, text in headers.items():
        if not carries_secret(header):
            row.headers[header] = text
        elif text != STORED:
            yield (
                "headers",
                f"{quote(header)} may carry a secret, which must not be in a document; write "
                f"`{STORED}`, and enter the value in the admin",
            )
        elif header in stored:
            row.headers[header] = stored[header]
        else:
            remarks.append(f"{name} has no stored value for the header {quote(header)}. Enter it.")


def find_key(entry: Entry, remarks: list[str]) -> ClientKey | None:
    """The row of a client key, or a new one for it; raises ValidationError.

    Returns None and adds a remark if the key does not exist here and its value is unknown.
    """
    label, prefix, variable = (entry.values[name] for name in ("label", "prefix", "key"))
    secret = _read_variable(variable.removeprefix("$")) if variable else ""
    if secret:
        row = ClientKey.objects.filter(digest=digest_of(secret)).first()
        if row is not None and row.label != label:
            raise ValidationError(
                {"label": f"the key in {variable} already exists here as {quote(row.label)}"}
            )
        if row is None:
            row = ClientKey(label=label)
            try:
                row.adopt(secret)
            except ValidationError as error:
                raise ValidationError({"key": f"{variable}: {error.messages[0]}"}) from error
        if prefix is not None and prefix != row.prefix:
            raise ValidationError({"prefix": f"the key in {variable} has another prefix"})
        return row
    name = f"The key {quote(label)}" + (f" ({quote(prefix)})" if prefix else "")
    if variable:
        remarks.append(f"{name}: the environment variable {variable[1:]} is not set here.")
    rows = ClientKey.objects.filter(label=label, prefix=prefix or "")
    if len(rows) == 1:
        return rows[0]
    why = "several keys match" if rows else "it does not exist"
    remarks.append(f"{name} was skipped: {why} here.")
    return None


def _read_variable(variable: str) -> str:
    """The value of an environment variable; raises ValidationError for a forbidden one."""
    try:
        validate_variable(variable)
    except ValidationError as error:
        raise ValidationError({"key": error.messages[0]}) from error
    return read_key_variable(variable)
