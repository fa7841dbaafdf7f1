"""Saves the rows of a draft. Only rows that differ are saved, each as one change in the history.

Runs in the caller's transaction. Rows are saved before the rows that refer to them, deletions come
last, and a single problem rejects the whole draft.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError

from formats import FORMATS
from proxy.configuration.document.credentials import apply_credentials, find_key
from proxy.configuration.document.export import row_of
from proxy.configuration.document.parse import Draft, Entry, quote
from proxy.configuration.document.problems import InvalidDocument, Problem
from proxy.configuration.document.schema import (
    DEFINITIONS,
    FORMAT_SETTINGS,
    GATEWAY,
    KEYS,
    OVERRIDES,
    ROUTES,
    UPSTREAMS,
    Table,
)
from proxy.configuration.editing import check_address, delete, store
from proxy.models import FormatOverride, GatewaySettings, ModelRoute

# Set by `apply_credentials`.
_CREDENTIAL_FIELDS = frozenset({"headers", "key", "prefix", "revoked"})
# Columns that have another name in the document.
_NAMES = {"key_variable": "key", "revoked_at": "revoked"}
_NOUNS = {"upstream": "upstream", "fallback": "route", "default_route": "route", "owner": "user"}


def apply_draft(draft: Draft, *, reason: str, now: datetime) -> list[str]:
    """Make the configuration equal the draft; returns remarks, raises InvalidDocument.

    `reason` is recorded in the history with every change.
    """
    return _DraftWriter(draft, reason, now).run()


class _DraftWriter:
    def __init__(self, draft: Draft, reason: str, now: datetime) -> None:
        self._draft = draft
        self._reason = reason
        self._now = now
        self._problems: list[Problem] = [*draft.problems]
        self._remarks: list[str] = []
        self._to_delete: dict[str, list[Any]] = {}

    def run(self) -> list[str]:
        upstreams = self._merge(UPSTREAMS, {})
        routes = self._merge(ROUTES, {"upstream": upstreams})
        self._gateway(routes)
        definitions = self._merge(DEFINITIONS, {})
        self._merge(OVERRIDES, {})
        self._formats(definitions)
        self._keys()
        self._check_upstreams()
        self._check_definitions(definitions)
        if self._problems:
            raise InvalidDocument(self._problems)
        self._delete()
        return self._remarks

    def _merge(self, table: Table, references: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Save the rows of a section; returns them by name."""
        (name,) = table.identity
        existing = {getattr(row, name): row for row in _existing(table)}
        if table.section not in self._draft.sections:
            return existing
        entries = self._draft.sections[table.section]
        merged: dict[str, Any] = {}
        if table is ROUTES:
            references = {**references, "fallback": merged}
            entries = self._fallbacks_first(entries)
        for entry in entries:
            if name in entry.invalid:
                continue
            key = entry.values[name]
            merged[key] = existing.get(key) or table.model(**{name: key})
            self._save(entry, merged[key], references)
        self._to_delete[table.section] = [row for n, row in existing.items() if n not in merged]
        return merged

    def _fallbacks_first(self, entries: list[Entry]) -> list[Entry]:
        """Sort the routes so that each comes after its fallback and can refer to it."""
        names = {entry.values["pattern"] for entry in entries}
        waiting = defaultdict(list)
        for entry in entries:
            target = entry.values["fallback"]
            waiting[target if target in names else None].append(entry)
        order = waiting.pop(None, [])
        for entry in order:  # the list grows during the loop
            order += waiting.pop(entry.values["pattern"], [])
        for entry in (entry for group in waiting.values() for entry in group):
            self._report(entry, "fallback", "the fallbacks form a circle")
            order.append(replace(entry, invalid=entry.invalid | {"fallback"}))
        return order

    def _save(self, entry: Entry, row: Any, references: Mapping[str, Mapping[str, Any]]) -> None:
        """Save a row with the values of its entry, if they are valid and differ."""
        table, problem_count = entry.table, len(self._problems)
        before = None if row._state.adding else _canonical(row_of(table, row))
        unchecked = set(entry.invalid)
        for name in entry.values.keys() - entry.invalid - _CREDENTIAL_FIELDS:
            if name not in table.references:
                setattr(row, name, entry.values[name])
            elif not self._set_reference(entry, row, name, references[name]):
                unchecked.add(name)
        for name, message in apply_credentials(row, entry, self._remarks, self._now):
            self._report(entry, name, message)
        try:
            row.full_clean(exclude=unchecked)
            check_address(row)
        except ValidationError as error:
            self._report_errors(entry, error)
        if len(self._problems) > problem_count or unchecked:
            return
        if before is None or _canonical(row_of(table, row)) != before:
            store(row, reason=self._reason)

    def _set_reference(self, entry: Entry, row: Any, name: str, targets: Mapping[str, Any]) -> bool:
        """Set a reference to another row; returns whether that row can be referred to."""
        key = entry.values[name]
        target = None if key is None else targets.get(key)
        if key is not None and target is None:
            self._report(entry, name, f"the {_NOUNS[name]} {quote(key)} does not exist")
            return False
        # A target that was not saved has a problem of its own.
        if target is not None and target._state.adding:
            return False
        setattr(row, name, target)
        return True

    def _gateway(self, routes: Mapping[str, ModelRoute]) -> None:
        row = GatewaySettings.objects.select_related("default_route").first()
        row = row or GatewaySettings(pk=1)
        for entry in self._draft.sections.get(GATEWAY.section, ()):
            self._save(entry, row, {"default_route": routes})
            default = routes.get(entry.values["default_route"])
            if default is not None and not default.active:
                self._report(entry, "default_route", f"{quote(default.pattern)} is not active")
        sections = self._draft.sections
        if row.default_route and ROUTES.section in sections and GATEWAY.section not in sections:
            pattern = row.default_route.pattern
            if pattern not in routes or not routes[pattern].active:
                what = "is not active" if pattern in routes else "is missing"
                self._report_section(ROUTES, f"the default route {quote(pattern)} {what}")

    def _formats(self, definitions: Iterable[str]) -> None:
        """Save the settings of every format; unlisted formats get their defaults."""
        if FORMAT_SETTINGS.section not in self._draft.sections:
            return
        entries = self._draft.sections[FORMAT_SETTINGS.section]
        listed = {entry.values["format"] for entry in entries}
        position = self._draft.positions[FORMAT_SETTINGS.section]
        defaults = {field.name: field.default for field in FORMAT_SETTINGS.fields}
        entries = [
            *entries,
            *(
                Entry(FORMAT_SETTINGS, "formats", position, defaults | {"format": name}, {})
                for name in (*FORMATS, *definitions)
                if name not in listed
            ),
        ]
        existing = {row.format: row for row in _existing(FORMAT_SETTINGS)}
        for entry in entries:
            if "format" not in entry.invalid:
                name = entry.values["format"]
                self._save(entry, existing.get(name) or FORMAT_SETTINGS.model(format=name), {})

    def _keys(self) -> None:
        entries = self._draft.sections.get(KEYS.section, [])
        owners = [entry.values["owner"] for entry in entries if entry.values["owner"]]
        rows = get_user_model()._default_manager.filter(username__in=owners)
        users = {user.get_username(): user for user in rows}
        seen = set()
        for entry in entries:
            if entry.invalid & {"label", "prefix", "key"}:
                continue
            try:
                row = find_key(entry, self._remarks)
            except ValidationError as error:
                self._report_errors(entry, error)
                continue
            if row is None:
                continue
            if row.digest in seen:
                self._report(entry, "label", f"{quote(row.label)} appears twice")
                continue
            seen.add(row.digest)
            self._save(entry, row, {"owner": users})

    def _check_upstreams(self) -> None:
        """If the document has no routes, the existing ones must keep their upstreams."""
        if ROUTES.section in self._draft.sections:
            return
        deleted = self._to_delete.get(UPSTREAMS.section, [])
        for route in ModelRoute.objects.filter(upstream__in=deleted).select_related("upstream"):
            name = quote(route.upstream.name)
            message = f"{name} is missing, but the route {quote(route.pattern)} needs it"
            self._report_section(UPSTREAMS, message)

    def _check_definitions(self, definitions: Mapping[str, Any]) -> None:
        """Overrides must keep their formats, whichever of the two sections the document has."""
        deleted = {row.pk for row in self._to_delete.get(OVERRIDES.section, [])}
        removed = {row.name for row in self._to_delete.get(DEFINITIONS.section, [])}
        for override in FormatOverride.objects.exclude(pk__in=deleted):
            row = definitions.get(override.format)
            if override.format in removed:
                what = "is missing"
            elif row is not None and override.active and not row.active:
                what = "is not active"
            else:
                continue
            message = f"{quote(override.format)} {what}, but the override "
            self._report_section(DEFINITIONS, f"{message}{quote(override.pattern)} needs it")

    def _delete(self) -> None:
        routes = self._to_delete.get(ROUTES.section, [])
        # Routes may protect each other as fallbacks, so their references are cleared first. The
        # rows in memory keep them, for the history.
        ModelRoute.objects.filter(pk__in=[row.pk for row in routes]).update(fallback=None)
        for table in (ROUTES, UPSTREAMS, OVERRIDES, DEFINITIONS):
            for row in self._to_delete.get(table.section, []):
                delete(row, reason=self._reason)

    def _report(self, entry: Entry, name: str, message: str) -> None:
        self._problems.append(entry.problem(name, message))

    def _report_section(self, table: Table, message: str) -> None:
        position = self._draft.positions[table.section]
        self._problems.append(Problem(position, table.section, message))

    def _report_errors(self, entry: Entry, error: ValidationError) -> None:
        for column, messages in error.message_dict.items():
            name = _NAMES.get(column, column)
            name = name if name in entry.values else ""
            for message in messages:
                value = quote(entry.values[name]) if name and name != "key" else ""
                seen = value in message or not isinstance(entry.values.get(name), str | int | float)
                self._report(entry, name, message if seen else f"{value}: {message}")


def _existing(table: Table) -> Iterable[Any]:
    return table.model._default_manager.select_related(*table.references)


def _canonical(row: dict[str, Any]) -> str:
    """JSON, because Python takes 1 and True for equal."""
    return json.dumps(row, sort_keys=True)
