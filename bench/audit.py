"""Measures the queries of the audit and the dashboard with a million rows, and shows their plans.

    python -m bench.audit [--rows 1000000] [--database-url postgres://…] [--plans]

Without a URL, it uses SQLite in a temporary file, then a temporary PostgreSQL server if PostgreSQL
is installed. A database given by URL must be empty; it is filled, and not cleared afterwards.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from typing import Any

from tests.support.postgres_server import PostgresMissing, PostgresServer

ROUNDS = 5
Case = Callable[[], object]


class Recorder:
    """Records SQL statements, to explain them later."""

    def __init__(self) -> None:
        self.statements: list[tuple[str, Any]] = []

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.statements.append((sql, params))
        return execute(sql, params, many, context)


def cases(rows: int, now: datetime) -> Mapping[str, Case]:
    """Queries of the pages and the API, by name."""
    from django.db.models import F

    from bench.exchanges import MODELS
    from proxy.audit.retention import expired_rows
    from proxy.audit.traffic.range_query import RANGES
    from proxy.models import Exchange, FailureGroup
    from proxy.pages.audit_list import describe_groups
    from proxy.pages.dashboard import board_context
    from proxy.pages.usage import recent_rows, sums
    from proxy.support.exchange_filters import filter_exchanges
    from proxy.support.exchange_pages import get_page

    def listed(**query: Any) -> Case:
        text = {name: str(value) for name, value in query.items()}
        return lambda: get_page(filter_exchanges(text, now), text)

    group = Exchange.objects.exclude(group=None).order_by("group_id", "id").first()
    assert group is not None
    week = (now - timedelta(days=40)).isoformat()
    until = (now - timedelta(days=39)).isoformat()
    undone = FailureGroup.objects.filter(state__in=("open", "regressed"))
    key = group.key_id

    def answered(**query: str) -> Case:
        """Whole rows in the order of a cursor, as in the API."""
        return lambda: list(filter_exchanges(query, now).order_by("-id")[:51])

    def old(name: str) -> Case:
        return lambda: list(expired_rows(now - timedelta(days=1))[name].values_list("pk")[:1000])

    return {
        "no filter": listed(),
        "in the middle": listed(before=rows // 2),
        "backwards": listed(after=rows // 2),
        "outcome ok": listed(outcome="ok"),
        "outcome failed": listed(outcome="failed"),
        "outcome drained": listed(outcome="drained"),
        "outcome failed, in the middle": listed(outcome="failed", before=rows // 2),
        "format kimi": listed(format="kimi"),
        "model, common": listed(model=MODELS[0]),
        "model, rare": listed(model=MODELS[-1]),
        "model, unknown": listed(model="unknown/model"),
        "upstream": listed(upstream="moonshot"),
        "key": listed(key=key),
        "code": listed(code="call_truncated"),
        "leaked kimi": listed(leaked="kimi"),
        "leaked any": listed(leaked="any"),
        "rescued any": listed(rescued="any"),
        "served by": listed(served_by="Parasail"),
        "served by no other provider": listed(upstream="moonshot", served_by="none"),
        "last hour": listed(since="1h"),
        "last week": listed(since="7d"),
        "a day, 40 days ago": listed(since=week, until=until),
        "failed on a day, 40 days ago": listed(outcome="failed", since=week, until=until),
        "group": listed(group=group.group_id),
        "failed, rare model": listed(outcome="failed", model=MODELS[-1]),
        "failed, kimi, last week": listed(outcome="failed", format="kimi", since="7d"),
        "leaked and failed": listed(leaked="any", outcome="failed"),
        "code of one key": listed(code="call_truncated", key=key),
        "by request id": lambda: Exchange.objects.filter(request_id=group.request_id).first(),
        "neighbour in a group": lambda: (
            Exchange.objects.filter(group=group.group_id, id__gt=group.pk).order_by("id").first()
        ),
        "list of groups": lambda: describe_groups(undone[:12], now),
        "rescued, rare model": listed(rescued="any", model=MODELS[-1]),
        "rescued, served by, last week": listed(rescued="any", served_by="Parasail", since="7d"),
        "leaked, served by, last 90 days": listed(leaked="any", served_by="Novita", since="90d"),
        **{f"dashboard, {name}": partial(board_context, name, now) for name in RANGES},
        "API, no filter": answered(),
        "API, failed": answered(outcome="failed"),
        "API, leaked any": answered(leaked="any"),
        "API, a day, 40 days ago": answered(since=week, until=until),
        "API, failed on a day, 40 days ago": answered(outcome="failed", since=week, until=until),
        "API, code of one key": answered(code="call_truncated", key=str(key)),
        "usage of the busiest key": lambda: list(
            sums(recent_rows(now).filter(key=key), name=F("model"))
        ),
        "old transcripts": old("transcripts"),
        "old exchanges": old("exchanges"),
    }


def measure(rows: int, *, shows_plans: bool) -> None:
    """Fill the configured database, and print the time of each case."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from bench.exchanges import add_up, seed
    from proxy.models import Exchange

    call_command("migrate", verbosity=0, interactive=False)
    if Exchange.objects.exists():
        raise SystemExit("The database is not empty. Give the URL of an empty one.")
    now, began = datetime.now(UTC), time.perf_counter()
    seed(rows, now)
    spent = time.perf_counter() - began
    began = time.perf_counter()
    add_up()
    added = time.perf_counter() - began
    print(
        f"\n{connection.vendor}: {rows} rows in {spent:.0f} s, {_size()}; sums in {added:.0f} s\n"
    )
    plans = []
    for name, case in cases(rows, now).items():
        recorder, times = Recorder(), []
        with connection.execute_wrapper(recorder):
            case()
        for _ in range(ROUNDS):
            began = time.perf_counter()
            case()
            times.append((time.perf_counter() - began) * 1000)
        print(f"{name:32} {median(times):9.1f} ms   worst {max(times):9.1f} ms")
        plans.append((name, recorder.statements))
    for name, statements in plans if shows_plans else ():
        print(f"\n{name}")
        for sql, params in statements:
            for line in explain(sql, params):
                print(f"    {line}")


def explain(sql: str, params: Any) -> list[str]:
    from django.db import connection

    prefix = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN (ANALYZE)"
    with connection.cursor() as cursor:
        cursor.execute(f"{prefix} {sql}", params)
        return [str(row[-1]) for row in cursor.fetchall()]


def _size() -> str:
    from django.db import connection

    query = "SELECT pg_database_size(current_database())"
    if connection.vendor == "sqlite":
        query = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    with connection.cursor() as cursor:
        cursor.execute(query)
        return f"{cursor.fetchone()[0] / 1024 / 1024:.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--database-url")
    parser.add_argument("--plans", action="store_true", help="print the plan of each query")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="athena-bench-") as folder:
        if options.database_url:
            os.environ |= {
                "DJANGO_SETTINGS_MODULE": "athena_site.settings",
                "ATHENA_DATA_DIR": folder,
                "DATABASE_URL": options.database_url,
            }
            measure(options.rows, shows_plans=options.plans)
            return
        _run_on(f"sqlite:///{folder}/bench.sqlite3", options)
        try:
            with PostgresServer() as server:
                _run_on(server.url, options)
        except PostgresMissing as error:
            print(f"\nNot measured on PostgreSQL: {error}")


def _run_on(url: str, options: argparse.Namespace) -> None:
    """Measure in a new process, because Django is configured for one database."""
    command = [sys.executable, "-m", "bench.audit", "--rows", str(options.rows)]
    plans = ["--plans"] if options.plans else []
    subprocess.run([*command, "--database-url", url, *plans], check=True)


if __name__ == "__main__":
    main()
