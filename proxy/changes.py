"""The records of the configuration: what a change was, and an old state brought back.

Plain functions over the records of `proxy.models.history`, for pages and the API alike. Records
have no secrets, so that nothing said here has any. What comes back is what an operator may edit:
secrets and revocations stay as they are today. Nothing here saves a row.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Field, ForeignKey, Max, Model, QuerySet

from proxy.headers import revealed
from proxy.models import CONFIGURATION, ClientKey, ModelRoute, Upstream
from proxy.models.history import Change

ABSENT = "–"
KINDS = {"+": "created", "~": "changed", "-": "deleted"}
_DELETED = "-"
_STAYS = frozenset({"revoked_at"})
"""Fields that can be edited and yet are never brought back."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    name: str
    label: str
    old: str
    new: str


def records(of: type[Model] | Model) -> "QuerySet[Any]":
    """The records of a table or of one row, the newest first."""
    model = of if isinstance(of, type) else type(of)
    found: QuerySet[Any] = model.history.select_related("history_user")  # type: ignore[attr-defined]
    found = found.order_by("-history_id")
    return found if isinstance(of, type) else found.filter(id=of.pk)


def newest(row: Model) -> Change | None:
    return records(row).first()


def newest_of_all() -> Change | None:
    """The record of the last change of the configuration, whichever table it was in."""
    found = [record for model in CONFIGURATION if (record := records(model).first())]
    return max(found, key=lambda record: record.version, default=None)


def version_of(row: Model) -> int:
    """The number of the version that last changed the row; 0 if no record tells."""
    return versions_of(type(row), [row.pk]).get(row.pk, 0)


def versions_of(model: type[Model], keys: Iterable[int]) -> dict[int, int]:
    """The same of many rows, by their primary keys, in one query."""
    found = model.history.filter(id__in=list(keys)).order_by()  # type: ignore[attr-defined]
    return dict(found.values_list("id").annotate(Max("version")))


def before(record: Change) -> Change | None:
    """The record of the same row that `record` followed."""
    earlier = records(record.instance_type).filter(id=record.id, history_id__lt=record.history_id)
    return earlier.first()


def differences(old: Change | None, new: Change) -> list[FieldChange]:
    """What changed from one record to the next: all that a row had, if it was made or deleted."""
    found = []
    for field in _fields(new):
        values = [_value(record, field) for record in (old, new)]
        if values[0] != values[1]:
            shown = [_shown(field, value) for value in values]
            found.append(FieldChange(field.name, str(field.verbose_name), shown[0], shown[1]))
    return [change for change in found if change.old != ABSENT or change.new != ABSENT]


def reverted(record: Change) -> Model:
    """The row as the record has it, to be saved; a row that was deleted is made again.

    Raises ValidationError if it cannot be so any more.
    """
    model = record.instance_type
    present = model._default_manager.filter(pk=record.id).first()
    row: Any = present or model(pk=record.id)
    if present is None and isinstance(row, ClientKey):
        raise ValidationError("A deleted key cannot be made again: its secret was not kept.")
    headers = row.headers if isinstance(row, Upstream) else {}
    for field in _fields(record):
        if field.editable and field.name not in _STAYS:
            setattr(row, field.attname, getattr(record, field.attname))
    if isinstance(row, Upstream):
        row.headers = revealed(row.headers, headers)
    if isinstance(row, Upstream | ModelRoute):
        row.from_environment = False
    row.full_clean()
    row._change_reason = f"back to version {record.version}"
    return row  # type: ignore[no-any-return]


def _fields(record: Change) -> "list[Field[Any, Any]]":
    """What the record has of its row, but for the primary key."""
    model = record.instance_type
    kept = {field.name for field in record._meta.fields}
    return [f for f in model._meta.fields if f.name in kept and not f.primary_key]


def _value(record: Change | None, field: "Field[Any, Any]") -> Any:
    if record is None or record.history_type == _DELETED:
        return None
    return getattr(record, field.attname)


def _shown(field: "Field[Any, Any]", value: Any) -> str:
    if value is None or value in ("", [], {}):
        return ABSENT
    if isinstance(field, ForeignKey):
        row = field.related_model._default_manager.filter(pk=value).first()
        return f"deleted #{value}" if row is None else str(row)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return str(value)
