"""The history of configuration rows: list the records, compare them, restore an old state.

Plain functions over the records of `proxy.models.history`, shared by the pages and the API. Records
hold no secrets, so the pages may show all of them. Restoring an old state brings back the fields
that an operator may edit; secrets and revocations keep their current values.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db.models import Field, ForeignKey, Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from proxy.models import CONFIGURATION, ClientKey, Upstream
from proxy.models.history import Change
from proxy.security.secret_headers import unmask_secrets

ABSENT = "–"
KINDS = {"+": "created", "~": "changed", "-": "deleted"}
_DELETED = "-"
_NEVER_RESTORED = frozenset({"revoked_at"})
"""Editable fields that keep their current value when an old state is restored."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    name: str
    label: str
    old: str
    new: str


def records(of: type[Model] | Model) -> "QuerySet[Any]":
    """The records of a table or of one row, the newest first."""
    model = of if isinstance(of, type) else type(of)
    found = _history(model).select_related("history_user").order_by("-history_id")
    # Prefetched, not joined: a record may refer to a deleted row.
    found = found.prefetch_related(*(f.name for f in model._meta.fields if _is_reference(f)))
    return found if isinstance(of, type) else found.filter(id=of.pk)


def newest(row: Model) -> Change | None:
    return records(row).first()


def newest_of_all() -> Change | None:
    """The record of the last configuration change in any table."""
    found = [record for model in CONFIGURATION if (record := records(model).first())]
    return max(found, key=lambda record: record.version, default=None)


def version_of(row: Model) -> int:
    """The configuration version that last changed the row; 0 if it has no record."""
    numbers = _history(type(row)).filter(id=row.pk).values_list("version", flat=True)
    return numbers.order_by("-history_id").first() or 0


def with_version(rows: "QuerySet[Any]") -> "QuerySet[Any]":
    """Annotate each row with its `version`, in the same query, so that the two match."""
    numbers = _history(rows.model).filter(id=OuterRef("pk")).order_by("-history_id")
    found: QuerySet[Any] = rows.annotate(
        version=Coalesce(Subquery(numbers.values("version")[:1]), 0)
    )
    return found


def previous_record(record: Change) -> Change | None:
    """The previous record of the same row."""
    earlier = records(record.instance_type).filter(id=record.id, history_id__lt=record.history_id)
    return earlier.first()


def with_previous(found: "QuerySet[Any]", limit: int) -> list[tuple[Change, Change | None]]:
    """The first records, each with the previous record of its row, in two queries."""
    earlier = _history(found.model.instance_type).filter(
        id=OuterRef("id"), history_id__lt=OuterRef("history_id")
    )
    newest_first = earlier.order_by("-history_id").values("history_id")[:1]
    page: list[Any] = list(found.annotate(previous=Subquery(newest_first))[:limit])
    previous = records(found.model.instance_type).in_bulk({record.previous for record in page})
    return [(record, previous.get(record.previous)) for record in page]


def differences(old: Change | None, new: Change) -> list[FieldChange]:
    """The fields that differ between two records; all fields for a created or deleted row."""
    changes = []
    for field in _fields(new):
        old_value, new_value = _value(old, field), _value(new, field)
        if old_value != new_value:
            texts = _display(old, field, old_value), _display(new, field, new_value)
            changes.append(FieldChange(field.name, str(field.verbose_name), *texts))
    # Times are displayed to the second: two that differ by less look the same.
    return [change for change in changes if change.old != change.new]


def restored_row(record: Change) -> Model:
    """The row with the values of the record, neither validated nor saved.

    A deleted row is created again under its old id. Raises ValidationError for a deleted key.
    """
    model = record.instance_type
    current = model._default_manager.filter(pk=record.id).first()
    row: Any = current or model(pk=record.id)
    if current is None and isinstance(row, ClientKey):
        raise ValidationError("A deleted key cannot be restored, because its secret was not kept.")
    current_headers = row.headers if isinstance(row, Upstream) else {}
    for field in _fields(record):
        if field.editable and field.name not in _NEVER_RESTORED:
            setattr(row, field.attname, getattr(record, field.attname))
    if isinstance(row, Upstream):
        row.headers = unmask_secrets(row.headers, current_headers)
    return row  # type: ignore[no-any-return]


def _history(model: type[Model]) -> "QuerySet[Any]":
    return model.history.all()  # type: ignore[attr-defined, no-any-return]


def _is_reference(field: "Field[Any, Any]") -> bool:
    return isinstance(field, ForeignKey)


def _fields(record: Change) -> "list[Field[Any, Any]]":
    """The fields of the row that the record holds, without the primary key."""
    model = record.instance_type
    kept = {field.name for field in record._meta.fields}
    return [f for f in model._meta.fields if f.name in kept and not f.primary_key]


def _value(record: Change | None, field: "Field[Any, Any]") -> Any:
    if record is None or record.history_type == _DELETED:
        return None
    return getattr(record, field.attname)


def _display(record: Change | None, field: "Field[Any, Any]", value: Any) -> str:
    if value is None or value in ("", [], {}):
        return ABSENT
    if _is_reference(field):
        try:
            row = getattr(record, field.name)
        except ObjectDoesNotExist:
            row = None
        return f"deleted #{value}" if row is None else str(row)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return str(value)
