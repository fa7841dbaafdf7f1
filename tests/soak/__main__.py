"""Runs the soak: ten minutes on each database, or as SOAK_SECONDS, SOAK_STREAMS and SOAK_ON say."""

import os
import sys
import tempfile
from pathlib import Path

from tests.soak.run import Report, Soak
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


def main() -> int:
    has_faults = False
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
