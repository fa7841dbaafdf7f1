"""A draft → rows. Only rows that differ are saved, each as one change of the history.

Everything happens in the caller's transaction: rows that others refer to are saved before them,
what is deleted goes last, and any problem refuses all. A row that is changed here becomes the
operator's, and follows the environment no longer.
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
from proxy.configuration.document import credentials
from proxy.configuration.document.export import row_of
from proxy.configuration.document.parse import Draft, Entry, shown
from proxy.configuration.document.problems import Problem, Refused
from proxy.configuration.document.schema import (
    FORMAT_SETTINGS,
    GATEWAY,
    KEYS,
    OVERRIDES,
    ROUTES,
    UPSTREAMS,
    Table,
)
from proxy.models import GatewaySettings, ModelRoute, Upstream

# Set by `credentials`.
_SETTLED = frozenset({"headers", "key", "prefix", "revoked"})
# What a column is called in the document, where that is not its own name.
_NAMES = {"key_variable": "key", "revoked_at": "revoked"}
_NOUNS = {"upstream": "upstream", "fallback": "route", "default_route": "route", "owner": "user"}


def apply(draft: Draft, *, reason: str, now: datetime) -> list[str]:
    """Make the configuration what the draft says, and return remarks; raises Refused.

    `reason` is what the history says of every change.
    """
    return _Application(draft, reason, now).run()


class _Application:
    def __init__(self, draft: Draft, reason: str, now: datetime) -> None:
        self._draft = draft
        self._reason = reason
        self._now = now
        self._problems: list[Problem] = [*draft.problems]
        self._remarks: list[str] = []
        self._doomed: dict[str, list[Any]] = {}

    def run(self) -> list[str]:
        upstreams = self._merge(UPSTREAMS, {})
        routes = self._merge(ROUTES, {"upstream": upstreams})
        self._gateway(routes)
        self._merge(OVERRIDES, {})
        self._formats()
        self._keys()
        self._check_upstreams()
        if self._problems:
            raise Refused(self._problems)
        self._delete()
        return self._remarks

    def _merge(self, table: Table, references: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The rows of a section by what they are called, saved."""
        (name,) = table.identity
        present = {getattr(row, name): row for row in _present(table)}
        if table.section not in self._draft.sections:
            return present
        entries = self._draft.sections[table.section]
        merged: dict[str, Any] = {}
        if table is ROUTES:
            references = {**references, "fallback": merged}
            entries = self._in_order(entries)
        for entry in entries:
            if name in entry.wrong:
                continue
            called = entry.values[name]
            merged[called] = present.get(called) or table.model(**{name: called})
            self._save(entry, merged[called], references)
        self._doomed[table.section] = [row for n, row in present.items() if n not in merged]
        return merged

    def _in_order(self, entries: list[Entry]) -> list[Entry]:
        """Each behind the one that it falls back to, so that it can refer to it."""
        names = {entry.values["pattern"] for entry in entries}
        waiting = defaultdict(list)
        for entry in entries:
            target = entry.values["fallback"]
            waiting[target if target in names else None].append(entry)
        order = waiting.pop(None, [])
        for entry in order:  # which grows meanwhile
            order += waiting.pop(entry.values["pattern"], [])
        for entry in (entry for group in waiting.values() for entry in group):
            self._blame(entry, "fallback", "it leads into a circle of fallbacks")
            order.append(replace(entry, wrong=entry.wrong | {"fallback"}))
        return order

    def _save(self, entry: Entry, row: Any, references: Mapping[str, Mapping[str, Any]]) -> None:
        """Bring a row up to its entry, if that is valid and another."""
        table, faults = entry.table, len(self._problems)
        before = None if row._state.adding else _canonical(row_of(table, row))
        unchecked = set(entry.wrong)
        for name in entry.values.keys() - entry.wrong - _SETTLED:
            if name not in table.references:
                setattr(row, name, entry.values[name])
            elif not self._refer(entry, row, name, references[name]):
                unchecked.add(name)
        for name, message in credentials.settle(row, entry, self._remarks, self._now):
            self._blame(entry, name, message)
        try:
            row.full_clean(exclude=unchecked)
        except ValidationError as error:
            self._blame_each(entry, error)
        if len(self._problems) > faults or unchecked:
            return
        if before is None or _canonical(row_of(table, row)) != before:
            if isinstance(row, Upstream | ModelRoute):
                row.from_environment = False
            row._change_reason = self._reason
            row.save()

    def _refer(self, entry: Entry, row: Any, name: str, targets: Mapping[str, Any]) -> bool:
        """Set a reference; whether there is something that can be referred to."""
        called = entry.values[name]
        target = None if called is None else targets.get(called)
        if called is not None and target is None:
            self._blame(entry, name, f"there is no {_NOUNS[name]} {shown(called)}")
            return False
        # One that was not saved has a problem of its own.
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
                self._blame(entry, "default_route", f"{shown(default.pattern)} is not active")
        sections = self._draft.sections
        if row.default_route and ROUTES.section in sections and GATEWAY.section not in sections:
            pattern = row.default_route.pattern
            if pattern not in routes or not routes[pattern].active:
                what = "is not active" if pattern in routes else "is not there"
                self._blame_section(ROUTES, f"the default route {shown(pattern)} {what}")

    def _formats(self) -> None:
        """A format that is not listed has its defaults; its row is always there."""
        if FORMAT_SETTINGS.section not in self._draft.sections:
            return
        entries = self._draft.sections[FORMAT_SETTINGS.section]
        listed = {entry.values["format"] for entry in entries}
        place = self._draft.places[FORMAT_SETTINGS.section]
        defaults = {field.name: field.default for field in FORMAT_SETTINGS.fields}
        entries = [
            *entries,
            *(
                Entry(FORMAT_SETTINGS, "formats", place, defaults | {"format": name}, {})
                for name in FORMATS
                if name not in listed
            ),
        ]
        present = {row.format: row for row in _present(FORMAT_SETTINGS)}
        for entry in entries:
            if "format" not in entry.wrong:
                name = entry.values["format"]
                self._save(entry, present.get(name) or FORMAT_SETTINGS.model(format=name), {})

    def _keys(self) -> None:
        entries = self._draft.sections.get(KEYS.section, [])
        owners = [entry.values["owner"] for entry in entries if entry.values["owner"]]
        found = get_user_model()._default_manager.filter(username__in=owners)
        users = {user.get_username(): user for user in found}
        seen = set()
        for entry in entries:
            if entry.wrong & {"label", "prefix", "key"}:
                continue
            try:
                row = credentials.find_key(entry, self._remarks)
            except ValidationError as error:
                self._blame_each(entry, error)
                continue
            if row is None:
                continue
            if row.digest in seen:
                self._blame(entry, "label", f"{shown(row.label)} is there twice")
                continue
            seen.add(row.digest)
            self._save(entry, row, {"owner": users})

    def _check_upstreams(self) -> None:
        """Without a section of routes, those that are there must still lead somewhere."""
        if ROUTES.section in self._draft.sections:
            return
        doomed = self._doomed.get(UPSTREAMS.section, [])
        for route in ModelRoute.objects.filter(upstream__in=doomed).select_related("upstream"):
            name = shown(route.upstream.name)
            message = f"{name} is not there, and the route {shown(route.pattern)} leads to it"
            self._blame_section(UPSTREAMS, message)

    def _delete(self) -> None:
        routes = self._doomed.get(ROUTES.section, [])
        # Not a change of its own: they may protect each other, and all of them go. The rows in
        # memory keep what they were, for the history.
        ModelRoute.objects.filter(pk__in=[row.pk for row in routes]).update(fallback=None)
        for table in (ROUTES, UPSTREAMS, OVERRIDES):
            for row in self._doomed.get(table.section, []):
                row._change_reason = self._reason
                row.delete()

    def _blame(self, entry: Entry, name: str, message: str) -> None:
        self._problems.append(entry.problem(name, message))

    def _blame_section(self, table: Table, message: str) -> None:
        place = self._draft.places[table.section]
        self._problems.append(Problem(place, table.section, message))

    def _blame_each(self, entry: Entry, error: ValidationError) -> None:
        for column, messages in error.message_dict.items():
            name = _NAMES.get(column, column)
            name = name if name in entry.values else ""
            for message in messages:
                value = shown(entry.values[name]) if name and name != "key" else ""
                seen = value in message or not isinstance(entry.values.get(name), str | int | float)
                self._blame(entry, name, message if seen else f"{value}: {message}")


def _present(table: Table) -> Iterable[Any]:
    return table.model._default_manager.select_related(*table.references)


def _canonical(row: dict[str, Any]) -> str:
    """So that 1 and true are not the same."""
    return json.dumps(row, sort_keys=True)
