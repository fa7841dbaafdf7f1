"""Makes, lists and revokes the clients' keys."""

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from proxy.models import ClientKey, ConfigurationVersion
from proxy.models.keys import new_key
from proxy.security.visible_text import visible

_OPTIONS = {"requests_per_minute": "--requests-per-minute", "max_streams": "--at-once"}


class Command(BaseCommand):
    help = "Make, list or revoke clients' keys."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        create = verbs.add_parser("create", help="make one, and print it once")
        create.add_argument("label", help="what or whom it is for")
        create.add_argument("--owner", help="the user who sees its usage")
        create.add_argument("--days", type=int, help="how long it is valid; for ever if not given")
        create.add_argument(
            "--models", nargs="+", default=[], metavar="PATTERN", help="the only ones it may use"
        )
        create.add_argument("--requests-per-minute", type=int, metavar="N")
        create.add_argument("--at-once", type=int, metavar="N", dest="max_streams")
        create.add_argument("--json", action="store_true")
        listing = verbs.add_parser("list", help="which there are")
        listing.add_argument("--json", action="store_true")
        revoke = verbs.add_parser("revoke", help="end one at once")
        revoke.add_argument("key", metavar="ID|PREFIX")

    def handle(self, *args: Any, **options: Any) -> None:
        match options["verb"]:
            case "create":
                self._create(options)
            case "list":
                self._list(as_json=options["json"])
            case _:
                self._revoke(options["key"])

    def _create(self, options: dict[str, Any]) -> None:
        days, owner = options["days"], None
        if days is not None and not 1 <= days <= 3650:
            raise CommandError("--days must be from 1 to 3650")
        if (name := options["owner"]) is not None:
            owner = get_user_model()._default_manager.filter(username=name).first()
            if owner is None:
                raise CommandError(f"there is no user {name!r}")
        row = ClientKey(
            label=options["label"],
            owner=owner,
            allowed_models=options["models"],
            requests_per_minute=options["requests_per_minute"],
            max_streams=options["max_streams"],
            expires_at=timezone.now() + timedelta(days=days) if days else None,
        )
        plain = new_key()
        row.adopt(plain)
        try:
            row.full_clean()
        except ValidationError as error:
            found = error.message_dict.items()
            said = [f"{_OPTIONS.get(field, field)}: {' '.join(words)}" for field, words in found]
            raise CommandError("\n".join(said)) from error
        _save(row, "key create")
        if options["json"]:
            self.stdout.write(json.dumps({**_described(row), "key": plain}))
        else:
            self.stdout.write(plain)
        self.stderr.write("It is shown only now. Clients send it as `x-api-key` or as a bearer.")

    def _list(self, *, as_json: bool) -> None:
        rows = [_described(row) for row in ClientKey.objects.select_related("owner")]
        if as_json:
            self.stdout.write(json.dumps(rows, indent=2))
            return
        for row in rows:
            parts = (
                f"{row['id']:>4}",
                f"{row['prefix']}…",
                f"{row['state']:<7}",
                f"until {row['expires_at'][:10]}" if row["expires_at"] else "for ever",
                f"used {row['last_used_at'][:10]}" if row["last_used_at"] else "never used",
                row["owner"] or "–",
                row["label"],
            )
            self.stdout.write(visible("  ".join(parts)))

    def _revoke(self, wanted: str) -> None:
        which = Q(prefix=wanted)
        if wanted.isascii() and wanted.isdigit() and len(wanted) < 19:
            which |= Q(pk=int(wanted))
        rows = list(ClientKey.objects.filter(which))
        if not rows:
            raise CommandError(f"there is no key {visible(wanted)!r}")
        if len(rows) > 1:
            ids = ", ".join(str(row.pk) for row in rows)
            raise CommandError(f"{len(rows)} keys are called {wanted}: give an id ({ids})")
        (row,) = rows
        if row.revoked_at is not None:
            self.stdout.write("It was revoked already.")
            return
        row._change_reason = "key revoke"  # type: ignore[attr-defined]
        row.revoke(timezone.now())
        self.stdout.write(visible(f"Revoked: {row}."))


@transaction.atomic
def _save(row: Any, reason: str) -> None:
    ConfigurationVersion.lock()
    row._change_reason = reason
    row.save()


def _described(row: ClientKey) -> dict[str, Any]:
    """What may be told of a key."""
    return {
        "id": row.pk,
        "prefix": row.prefix,
        "label": row.label,
        "owner": row.owner.get_username() if row.owner else None,
        "state": row.state(timezone.now()).value,
        "allowed_models": row.allowed_models,
        "requests_per_minute": row.requests_per_minute,
        "max_streams": row.max_streams,
        "expires_at": row.expires_at.isoformat() if row.expires_at else None,
        "last_used_at": row.last_used_at.isoformat() if row.last_used_at else None,
    }
