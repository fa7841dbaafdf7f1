"""Changes page: recent edits of the configuration, with author, time and changed fields."""

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from proxy.configuration.history import KINDS, FieldChange, differences, records, with_previous
from proxy.models import CONFIGURATION
from proxy.pages.access import has_permission, render_page, staff_page

_MAX_ENTRIES = 100
_PAGE = "configuration:changes"


@dataclass(frozen=True, slots=True)
class Entry:
    record: Any
    table: str
    name: str
    kind: str
    changes: list[FieldChange]
    history_url: str
    """The row's own history page; empty if the row was deleted."""
    restore_url: str
    """Posting here recreates a deleted row; empty if that is impossible."""

    @property
    def author(self) -> str:
        return str(self.record.history_user or "a command or the environment")


def with_undo_link(done: str) -> SafeString:
    """Return the message of an edit, with a link to the page where it can be undone."""
    return format_html('{} <a href="{}">Undo this in Changes.</a>', done, reverse(_PAGE))


@staff_page(
    "view_upstream",
    "view_modelroute",
    "view_formatoverride",
    "view_formatdefinition",
    "view_clientkey",
)
def changes(request: HttpRequest) -> HttpResponse:
    entries = [entry for model in CONFIGURATION for entry in entries_of(records(model))]
    entries.sort(key=lambda entry: entry.record.version, reverse=True)
    return render_page(
        request,
        "configuration/changes.html",
        "Configuration changes",
        entries=entries[:_MAX_ENTRIES],
        may_restore=has_permission(request, "add_upstream"),
    )


def entries_of(history: "QuerySet[Any]") -> list[Entry]:
    """List the newest history records of one table, each with the fields it changed."""
    page = with_previous(history, _MAX_ENTRIES)
    model, keys = history.model.instance_type, {record.id for record, _ in page}
    existing = set(model._default_manager.filter(pk__in=keys).values_list("pk", flat=True))
    return [_entry(record, earlier, exists=record.id in existing) for record, earlier in page]


def _entry(record: Any, earlier: Any, *, exists: bool) -> Entry:
    meta, is_deletion = record.instance_type._meta, record.history_type == "-"
    # A client key's digest is not in the history, so a deleted key cannot be restored.
    can_restore = is_deletion and earlier and not exists and meta.model_name != "clientkey"
    own = reverse(f"admin:proxy_{meta.model_name}_history", args=[record.id])
    return Entry(
        record=record,
        table=str(meta.verbose_name),
        name=str(record.history_object),
        kind=KINDS[record.history_type],
        changes=[] if is_deletion else differences(earlier, record),
        history_url=own if exists else "",
        restore_url=_revert_url(earlier) if can_restore else "",
    )


def _revert_url(record: Any) -> str:
    name = record.instance_type._meta.model_name
    return reverse(f"admin:proxy_{name}_revert", args=[record.id, record.version])
