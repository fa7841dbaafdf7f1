"""`manage.py key`: creates, lists and revokes client keys."""

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q
from django.utils import timezone

from proxy.configuration import client_keys
from proxy.configuration.editing import editing, save
from proxy.models import ClientKey
from proxy.models.keys import new_key
from proxy.security.visible_text import visible

_FIELD_OPTIONS = {
    "requests_per_minute": "--requests-per-minute",
    "max_streams": "--concurrent-requests",
}


class Command(BaseCommand):
    help = "Create, list or revoke client keys."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
        create = verbs.add_parser("create", help="create a key and print it; it is not shown again")
        create.add_argument("label", help="what the key is for")
        create.add_argument("--owner", help="username of the person who sees its usage")
        create.add_argument("--days", type=int, help="days until it expires; default: never")
        create.add_argument(
            "--models",
            nargs="+",
            default=[],
            metavar="PATTERN",
            help="patterns of the models it may use; default: all",
        )
        create.add_argument(
            "--requests-per-minute", type=int, metavar="N", help="default: the gateway's setting"
        )
        create.add_argument(
            "--concurrent-requests",
            "--at-once",  # the old name, for scripts
            type=int,
            metavar="N",
            dest="max_streams",
            help="default: the gateway's setting",
        )
        create.add_argument("--json", action="store_true", help="print the key as JSON")
        listing = verbs.add_parser("list", help="list the keys")
        listing.add_argument("--json", action="store_true", help="print the list as JSON")
        revoke = verbs.add_parser("revoke", help="revoke a key immediately")
        revoke.add_argument("key", metavar="ID|PREFIX", help="as `key list` shows it")

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
                raise CommandError(f"no user is named {name!r}")
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
            with editing():
                save(row, reason="key create")
        except ValidationError as error:
            problems = [
                f"{_FIELD_OPTIONS.get(field, field)}: {' '.join(texts)}"
                for field, texts in error.message_dict.items()
            ]
            raise CommandError("\n".join(problems)) from error
        if options["json"]:
            self.stdout.write(json.dumps({**_described(row), "key": plain}))
        else:
            self.stdout.write(plain)
        self.stderr.write(
            "Copy this key now: it cannot be shown again. Clients send it as `x-api-key: KEY` or"
            " `Authorization: Bearer KEY`."
        )

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
                f"expires {row['expires_at'][:10]}" if row["expires_at"] else "no expiry",
                f"last used {row['last_used_at'][:10]}" if row["last_used_at"] else "never used",
                row["owner"] or "–",
                row["label"],
            )
            self.stdout.write(visible("  ".join(parts)))

    def _revoke(self, id_or_prefix: str) -> None:
        which = Q(prefix=id_or_prefix)
        if id_or_prefix.isascii() and id_or_prefix.isdigit() and len(id_or_prefix) < 19:
            which |= Q(pk=int(id_or_prefix))
        rows = list(ClientKey.objects.filter(which))
        if not rows:
            raise CommandError(f"no key has the id or prefix {visible(id_or_prefix)!r}")
        if len(rows) > 1:
            ids = ", ".join(str(row.pk) for row in rows)
            raise CommandError(
                f"{len(rows)} keys have the prefix {id_or_prefix}. Use an id instead: {ids}"
            )
        (row,) = rows
        if row.revoked_at is not None:
            self.stdout.write("This key was already revoked.")
            return
        client_keys.revoke(row, timezone.now(), reason="key revoke")
        self.stdout.write(visible(f"Revoked {row}."))


def _described(row: ClientKey) -> dict[str, Any]:
    """Return the fields of a key that may be printed."""
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
