"""The records of the configuration: what a change was, and an old state brought back.

Plain functions over the records of `proxy.models.history`, for pages and the API alike. Records
have no secrets, so that nothing said here has any. What comes back is what an operator may edit:
secrets and revocations stay as they are today.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db.models import Field, ForeignKey, Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from proxy.models import CONFIGURATION, ClientKey, ModelRoute, Upstream
from proxy.models.history import Change
from proxy.security.secret_headers import revealed

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
    found = _history(model).select_related("history_user").order_by("-history_id")
    # Not joined: a record may name a row that is gone.
    found = found.prefetch_related(*(f.name for f in model._meta.fields if _is_reference(f)))
    return found if isinstance(of, type) else found.filter(id=of.pk)


def newest(row: Model) -> Change | None:
    return records(row).first()


def newest_of_all() -> Change | None:
    """The record of the last change of the configuration, whichever table it was in."""
    found = [record for model in CONFIGURATION if (record := records(model).first())]
    return max(found, key=lambda record: record.version, default=None)


def version_of(row: Model) -> int:
    """The number of the version that last changed the row; 0 if no record tells."""
    numbers = _history(type(row)).filter(id=row.pk).values_list("version", flat=True)
    return numbers.order_by("-history_id").first() or 0


def with_version(rows: "QuerySet[Any]") -> "QuerySet[Any]":
    """The rows, each with its `version`: read in one statement, so that they belong together."""
    numbers = _history(rows.model).filter(id=OuterRef("pk")).order_by("-history_id")
    found: QuerySet[Any] = rows.annotate(
        version=Coalesce(Subquery(numbers.values("version")[:1]), 0)
    )
    return found


def before(record: Change) -> Change | None:
    """The record of the same row that `record` followed."""
    earlier = records(record.instance_type).filter(id=record.id, history_id__lt=record.history_id)
    return earlier.first()


def with_before(found: "QuerySet[Any]", most: int) -> list[tuple[Change, Change | None]]:
    """The first of the records, each with the one that it followed: all read at once."""
    earlier = _history(found.model.instance_type).filter(
        id=OuterRef("id"), history_id__lt=OuterRef("history_id")
    )
    newest_first = earlier.order_by("-history_id").values("history_id")[:1]
    page: list[Any] = list(found.annotate(followed=Subquery(newest_first))[:most])
    followed = records(found.model.instance_type).in_bulk({record.followed for record in page})
    return [(record, followed.get(record.followed)) for record in page]


def differences(old: Change | None, new: Change) -> list[FieldChange]:
    """What changed from one record to the next: all that a row had, if it was made or deleted."""
    found = []
    for field in _fields(new):
        values = [_value(record, field) for record in (old, new)]
        if values[0] != values[1]:
            shown = [
                _shown(record, field, value)
                for record, value in zip((old, new), values, strict=True)
            ]
            found.append(FieldChange(field.name, str(field.verbose_name), shown[0], shown[1]))
    # Of a time, less is shown than is kept.
    return [change for change in found if change.old != change.new]


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


def revert(record: Change) -> Model:
    """The same, saved. What records leave out is not written: it may have changed meanwhile."""
    row, left_out = reverted(record), record._history_excluded_fields
    names = [f.name for f in row._meta.fields if not f.primary_key and f.name not in left_out]
    row.save(update_fields=None if row._state.adding else names)
    return row


def _history(model: type[Model]) -> "QuerySet[Any]":
    return model.history.all()  # type: ignore[attr-defined, no-any-return]


def _is_reference(field: "Field[Any, Any]") -> bool:
    return isinstance(field, ForeignKey)


def _fields(record: Change) -> "list[Field[Any, Any]]":
    """What the record has of its row, but for the primary key."""
    model = record.instance_type
    kept = {field.name for field in record._meta.fields}
    return [f for f in model._meta.fields if f.name in kept and not f.primary_key]


def _value(record: Change | None, field: "Field[Any, Any]") -> Any:
    if record is None or record.history_type == _DELETED:
        return None
    return getattr(record, field.attname)


def _shown(record: Change | None, field: "Field[Any, Any]", value: Any) -> str:
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
