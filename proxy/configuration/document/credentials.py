"""What a document says of secrets, made true: kept here, in the environment, or to be entered.

No value of a secret is in a document, a problem or a remark. A remark says what an operator must
do before the row works.
"""

import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError

from proxy.configuration.document.parse import Entry, shown
from proxy.configuration.document.schema import STORED
from proxy.models import ClientKey, Upstream
from proxy.models.keys import digest_of
from proxy.security.secret_headers import carries_secret
from proxy.validators import validate_variable


def settle(row: Any, entry: Entry, remarks: list[str], now: datetime) -> Iterator[tuple[str, str]]:
    """Set what a row has of secrets; what is wrong, by field."""
    if isinstance(row, Upstream):
        name = f"The upstream {shown(row.name)}"
        if "key" not in entry.wrong:
            _settle_key(row, entry.values["key"], name, remarks)
        if "headers" not in entry.wrong:
            yield from _settle_headers(row, entry.values["headers"], name, remarks)
    elif isinstance(row, ClientKey) and "revoked" not in entry.wrong:
        if row.revoked_at is None:
            row.revoked_at = now if entry.values["revoked"] else None
        elif not entry.values["revoked"]:
            remarks.append(f"The key {shown(row.label)} ({row.prefix}…) stays revoked.")


def _settle_key(row: Upstream, key: str | None, name: str, remarks: list[str]) -> None:
    if key == STORED:
        row.key_variable = ""
        if not row.sealed_key:
            remarks.append(f"{name} has no stored key here: enter it.")
        return
    if row.sealed_key:
        remarks.append(f"{name}: its stored key is deleted.")
    row.sealed_key, row.key_variable = "", (key or "").removeprefix("$")
    if key and not os.environ.get(row.key_variable):
        remarks.append(f"{name}: the environment variable {row.key_variable} is not set here.")


def _settle_headers(
    row: Upstream, headers: dict[str, Any], name: str, remarks: list[str]
) -> Iterator[tuple[str, str]]:
    present = row.headers if isinstance(row.headers, dict) else {}
    row.headers = {}
    for header, text in headers.items():
        if not carries_secret(header):
            row.headers[header] = text
        elif text != STORED:
            yield (
                "headers",
                f"{shown(header)} may carry a secret, which has no place here: write `{STORED}`, "
                "and enter it in the admin",
            )
        elif header in present:
            row.headers[header] = present[header]
        else:
            remarks.append(f"{name} has no stored value of the header {shown(header)}: enter it.")


def find_key(entry: Entry, remarks: list[str]) -> ClientKey | None:
    """The client key that an entry is about, or a row for it; raises ValidationError.

    None, and a remark, where it is not known here and nothing says what it is.
    """
    label, prefix, variable = (entry.values[name] for name in ("label", "prefix", "key"))
    secret = _read(variable.removeprefix("$")) if variable else ""
    if secret:
        row = ClientKey.objects.filter(digest=digest_of(secret)).first()
        if row is not None and row.label != label:
            raise ValidationError({"label": f"the key of {variable} is here as {shown(row.label)}"})
        if row is None:
            row = ClientKey(label=label)
            try:
                row.adopt(secret)
            except ValidationError as error:
                raise ValidationError({"key": f"{variable}: {error.messages[0]}"}) from error
        if prefix is not None and prefix != row.prefix:
            raise ValidationError({"prefix": f"the key of {variable} begins otherwise"})
        return row
    name = f"The key {shown(label)}" + (f" ({shown(prefix)})" if prefix else "")
    if variable:
        remarks.append(f"{name}: the environment variable {variable[1:]} is not set here.")
    rows = ClientKey.objects.filter(label=label, prefix=prefix or "")
    if len(rows) == 1:
        return rows[0]
    what = "there are several" if rows else "it is not known"
    remarks.append(f"{name} is left out: {what} here.")
    return None


def _read(variable: str) -> str:
    """What the environment has; raises ValidationError for what is none of an operator's."""
    try:
        validate_variable(variable)
    except ValidationError as error:
        raise ValidationError({"key": error.messages[0]}) from error
    return os.environ.get(variable, "")
