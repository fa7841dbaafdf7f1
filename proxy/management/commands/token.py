"""`manage.py token`: creates, lists and deletes tokens for the management API."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from proxy.models import ApiToken


class Command(BaseCommand):
    help = "Create, list or delete tokens for the management API."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
        create = verbs.add_parser(
            "create", help="create a token and print it; it is not shown again"
        )
        create.add_argument("user", help="username of the person whose rights it has")
        create.add_argument("--label", default="", help="what the token is for")
        create.add_argument("--days", type=int, help="days until it expires; default: never")
        verbs.add_parser("list", help="list the tokens")
        delete = verbs.add_parser("delete", help="delete a token immediately")
        delete.add_argument("id", type=int, help="as `token list` shows it")

    def handle(self, *args: Any, **options: Any) -> None:
        match options["verb"]:
            case "create":
                self._create(options["user"], options["label"][:100], options["days"])
            case "list":
                for row in ApiToken.objects.select_related("owner"):
                    expiry = f"expires {row.expires_at:%Y-%m-%d}" if row.expires_at else "no expiry"
                    fields = (str(row.pk), f"{row.prefix}…", str(row.owner), expiry, row.label)
                    self.stdout.write("  ".join(fields))
            case "delete":
                if not ApiToken.objects.filter(pk=options["id"]).delete()[0]:
                    raise CommandError(f"no token has the id {options['id']}")
                self.stdout.write("Token deleted.")

    def _create(self, name: str, label: str, days: int | None) -> None:
        user = get_user_model()._default_manager.filter(username=name).first()
        if user is None:
            raise CommandError(f"no user is named {name!r}")
        if not (user.is_active and user.is_staff):
            raise CommandError(f"{name} is not an active staff user, so a token would be rejected")
        if days is not None and not 1 <= days <= 3650:
            raise CommandError("--days must be from 1 to 3650")
        expires_at = timezone.now() + timedelta(days=days) if days else None
        _, plain = ApiToken.make(user, label=label, expires_at=expires_at)
        self.stdout.write(plain)
        self.stderr.write(
            "Copy this token now: it cannot be shown again. Send it as"
            " `Authorization: Bearer TOKEN`."
        )
