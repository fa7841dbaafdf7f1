"""What was changed in the configuration, by whom and when, in all of its tables."""

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from proxy.configuration.history import KINDS, FieldChange, differences, records, with_before
from proxy.models import CONFIGURATION
from proxy.pages.access import may, page, shown

_MOST = 100


@dataclass(frozen=True, slots=True)
class Entry:
    record: Any
    table: str
    name: str
    kind: str
    changes: list[FieldChange]
    history: str
    """The address of the row's own history; empty if the row is gone."""
    restore: str
    """Where a deleted row can be made again; empty if it cannot."""

    @property
    def who(self) -> str:
        return str(self.record.history_user or "a command, or the environment")


@page("view_upstream", "view_modelroute", "view_formatoverride", "view_clientkey")
def changes(request: HttpRequest) -> HttpResponse:
    found = [entry for model in CONFIGURATION for entry in entries_of(records(model))]
    found.sort(key=lambda entry: entry.record.version, reverse=True)
    return shown(
        request,
        "configuration/changes.html",
        "Changes of the configuration",
        entries=found[:_MOST],
        may_restore=may(request, "add_upstream"),
    )


def entries_of(found: "QuerySet[Any]") -> list[Entry]:
    """The newest records of one table, each with what it changed."""
    page = with_before(found, _MOST)
    model, keys = found.model.instance_type, {record.id for record, _ in page}
    present = set(model._default_manager.filter(pk__in=keys).values_list("pk", flat=True))
    return [_entry(record, earlier, is_there=record.id in present) for record, earlier in page]


def _entry(record: Any, earlier: Any, *, is_there: bool) -> Entry:
    meta, is_end = record.instance_type._meta, record.history_type == "-"
    # What a key was is not kept, so that a deleted one cannot be made again.
    can_restore = is_end and earlier and not is_there and meta.model_name != "clientkey"
    own = reverse(f"admin:proxy_{meta.model_name}_history", args=[record.id])
    return Entry(
        record=record,
        table=str(meta.verbose_name),
        name=str(record.history_object),
        kind=KINDS[record.history_type],
        changes=[] if is_end else differences(earlier, record),
        history=own if is_there else "",
        restore=_revert_url(earlier) if can_restore else "",
    )


def _revert_url(record: Any) -> str:
    name = record.instance_type._meta.model_name
    return reverse(f"admin:proxy_{name}_revert", args=[record.id, record.version])
