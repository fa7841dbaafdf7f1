"""The one way to change configuration rows.

The admin, the API, imports, reverts, replays, commands and the bootstrap all change rows here:

    with editing():              # one transaction that holds the configuration's lock
        row = …                  # read the row after the lock is held
        check_version(row, seen) # raise if the row has changed since the editor saw it
        save(row, reason="…")    # validate, mark as edited by an operator, save

Every saved or deleted row leaves a record in the history and makes a new configuration version. The
record's author is the user of the current request, which simple-history's middleware knows.
"""

from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Model, ProtectedError

from proxy.configuration.history import newest, restored_row
from proxy.configuration.upstream import have_same_origin, ignores_address
from proxy.models import (
    ConfigurationVersion,
    FormatDefinition,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Upstream,
)
from proxy.models.encrypted_headers import StoredSecret
from proxy.models.history import Change


class EditConflict(Exception):
    """The row has changed since the editor read it."""

    def __init__(self, last_change: Change | None) -> None:
        super().__init__("the row has changed since it was read")
        self.last_change = last_change
        """The newest record of the row; None if the history has no record of it."""
        self.version = version_of_record(last_change)


@contextmanager
def editing(*, dry_run: bool = False) -> Iterator[None]:
    """Hold the configuration's lock for one transaction; a dry run is rolled back at its end."""
    with transaction.atomic():
        lock()
        yield
        if dry_run:
            transaction.set_rollback(True)


def lock() -> None:
    """Lock the configuration until the current transaction ends.

    For code that runs in the caller's transaction, such as a form of Django's admin; all other code
    uses `editing`. Locking again in the same transaction is harmless.
    """
    ConfigurationVersion.lock()


def check_version(row: Model, seen: Container[int]) -> None:
    """Raise EditConflict unless the row's version is one that the editor has seen."""
    last_change = newest(row)
    if version_of_record(last_change) not in seen:
        raise EditConflict(last_change)


def version_of_record(record: Change | None) -> int:
    return record.version if record else 0


def check_address(row: Model) -> None:
    """Raise ValidationError if an upstream's address is not used, or not for its stored secrets.

    Operators cannot read a stored secret. With a new address they could have it delivered.
    """
    if isinstance(row, Upstream) and ignores_address(row):
        raise ValidationError(
            {
                "base_url": f"The upstream {row.name} is the gateway's own demo, and answers from "
                "the gateway itself. Add another upstream for this address."
            }
        )
    stored = Upstream.objects.filter(pk=row.pk).first() if isinstance(row, Upstream) else None
    if not isinstance(row, Upstream) or stored is None:
        return
    if have_same_origin(row, stored):
        return
    headers = row.headers if isinstance(row.headers, dict) else {}
    kept = [name for name, value in headers.items() if isinstance(value, StoredSecret)]
    if row.sealed_key and row.sealed_key == stored.sealed_key:
        kept.insert(0, "the key")
    if kept:
        raise ValidationError(
            {
                "base_url": f"This is another server (scheme, host or port) than before. Stored "
                f"secrets are not sent there: enter or remove {', '.join(kept)}."
            }
        )


def save(row: Model, *, fields: Iterable[str] | None = None, reason: str = "") -> None:
    """Validate a row and save it as an operator's edit; raises ValidationError."""
    row.full_clean()
    if isinstance(row, ModelRoute):
        check_default_route(row)
    if isinstance(row, FormatDefinition):
        check_overrides(row)
    store(row, fields=fields, reason=reason)


def store(
    row: Any, *, fields: Iterable[str] | None = None, reason: str = "", by_operator: bool = True
) -> None:
    """Save a row that the caller has validated.

    Only the given fields are written; all of them if the row is new or no fields are given. A row
    that an operator saves no longer follows the environment. Raises ValidationError only for
    secrets that would be sent to another server.
    """
    lock()
    check_address(row)
    names = None if fields is None or row._state.adding else {*fields}
    if by_operator and isinstance(row, Upstream | ModelRoute):
        row.from_environment = False
        names = None if names is None else names | {"from_environment"}
    if reason:
        row._change_reason = reason
    row.save(update_fields=names)
    if isinstance(row, FormatDefinition):  # every format has settings
        FormatSettings.objects.get_or_create(format=row.name)


def delete(row: Any, *, reason: str = "") -> None:
    """Delete a row; raises ProtectedError if another row needs it."""
    lock()
    if isinstance(row, FormatDefinition):
        if overrides := overrides_to(row):
            raise ProtectedError(f"overrides use the format {row}", {*overrides})
        for settings in FormatSettings.objects.filter(format=row.name):
            delete(settings, reason=reason)
    if reason:
        row._change_reason = reason
    row.delete()


def revert(record: Change) -> Model:
    """Bring back the state in a record, also of a deleted row; raises ValidationError.

    Fields that records leave out are not written, because they may have changed since.
    """
    row = restored_row(record)
    left_out = record._history_excluded_fields
    fields = [f.name for f in row._meta.fields if not f.primary_key and f.name not in left_out]
    save(row, fields=fields, reason=f"back to version {record.version}")
    return row


def check_default_route(route: ModelRoute) -> None:
    """Raise ValidationError if `route` is the default and inactive: other names depend on it.

    `ModelRoute.clean` does not check this, because an import may change both rows, one after the
    other.
    """
    is_default = GatewaySettings.objects.filter(default_route=route.pk).exists()
    if route.pk and is_default and not route.active:
        raise ValidationError(
            {"active": "This is the default route. Choose another in the gateway settings first."}
        )


def overrides_to(row: FormatDefinition) -> list[FormatOverride]:
    """The overrides to an operator's format, also disabled ones."""
    return [*FormatOverride.objects.filter(format=row.name)]


def check_overrides(row: FormatDefinition) -> None:
    """Raise ValidationError if a format is inactive although active overrides use it.

    `FormatDefinition.clean` does not check this, because an import may change both rows, one after
    the other.
    """
    used_by = [str(override) for override in overrides_to(row) if override.active]
    if used_by and not row.active:
        raise ValidationError(
            {
                "active": f"Overrides use this format: {', '.join(used_by[:10])}. Disable or "
                "change them first."
            }
        )
