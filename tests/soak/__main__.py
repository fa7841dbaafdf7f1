"""Runs the soak: ten thousand mixed exchanges, then ten minutes of load on each database.

SOAK_EXCHANGES, SOAK_SECONDS, SOAK_STREAMS and SOAK_ON change that, SOAK_SEED the random choices.
"""

import os
import sys
import tempfile
from pathlib import Path

from tests.soak.run import Report, Soak
from tests.support.gateway import Gateway
from tests.support.mixed_exchanges import MixedReport, run_exchanges
from tests.support.postgres_server import PostgresMissing, PostgresServer


def soak(database: str) -> Report:
    seconds = float(os.environ.get("SOAK_SECONDS", "600"))
    streams = int(os.environ.get("SOAK_STREAMS", "200"))
    seed = int(os.environ.get("SOAK_SEED", "7"))
    with tempfile.TemporaryDirectory(prefix="athena-soak-") as folder:
        place = Path(folder)
        if database == "sqlite":
            return Soak(place, seconds=seconds, streams=streams, seed=seed).run()
        with PostgresServer() as server:
            url = server.create_database()
            return Soak(place, seconds=seconds, streams=streams, seed=seed, database_url=url).run()


def mix() -> MixedReport:
    count = int(os.environ.get("SOAK_EXCHANGES", "10000"))
    seed = int(os.environ.get("SOAK_SEED", "7"))
    module = "tests.support.mixed_exchanges_settings"
    with tempfile.TemporaryDirectory(prefix="athena-soak-") as folder:
        gateway = Gateway(Path(folder), DJANGO_SETTINGS_MODULE=module).start()
        try:
            return run_exchanges(gateway, count=count, seed=seed)
        finally:
            gateway.stop()


def main() -> int:
    exchanges = mix()
    print(exchanges, flush=True)
    has_faults = bool(exchanges.failures)
    for database in os.environ.get("SOAK_ON", "sqlite postgres").split():
        try:
            report = soak(database)
        except PostgresMissing as error:
            print(f"NOT SOAKED on PostgreSQL: {error}", file=sys.stderr)
            continue
        print(report, flush=True)
        has_faults |= bool(report.faults)
    return int(has_faults)


if __name__ == "__main__":
    sys.exit(main())
