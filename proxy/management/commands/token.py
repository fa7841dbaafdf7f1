"""Makes, lists and deletes the tokens of the management API."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from proxy.models import ApiToken


class Command(BaseCommand):
    help = "Make, list or delete tokens of the management API."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        create = verbs.add_parser("create", help="make one, and print it once")
        create.add_argument("user")
        create.add_argument("--label", default="", help="what it is for")
        create.add_argument("--days", type=int, help="how long it is valid; for ever if not given")
        verbs.add_parser("list", help="whose there are")
        delete = verbs.add_parser("delete", help="end one at once")
        delete.add_argument("id", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        match options["verb"]:
            case "create":
                self._create(options["user"], options["label"][:100], options["days"])
            case "list":
                for row in ApiToken.objects.select_related("owner"):
                    until = f"until {row.expires_at:%Y-%m-%d}" if row.expires_at else "for ever"
                    self.stdout.write(f"{row.pk}  {row.prefix}…  {row.owner}  {until}  {row.label}")
            case "delete":
                if not ApiToken.objects.filter(pk=options["id"]).delete()[0]:
                    raise CommandError(f"there is no token {options['id']}")
                self.stdout.write("Deleted.")

    def _create(self, name: str, label: str, days: int | None) -> None:
        user = get_user_model()._default_manager.filter(username=name).first()
        if user is None:
            raise CommandError(f"there is no user {name!r}")
        if not (user.is_active and user.is_staff):
            raise CommandError(f"{name} is not active, or not of the staff: no token would help")
        if days is not None and not 1 <= days <= 3650:
            raise CommandError("--days must be from 1 to 3650")
        expires_at = timezone.now() + timedelta(days=days) if days else None
        _, plain = ApiToken.make(user, label=label, expires_at=expires_at)
        self.stdout.write(plain)
        self.stderr.write("It is shown only now. Send it as `Authorization: Bearer …`.")
