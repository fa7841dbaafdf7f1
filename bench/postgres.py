"""A PostgreSQL server of one's own, in a directory that goes with it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.servers import LOOPBACK, free_port, process

_USER = "postgres"


class PostgresMissing(Exception):
    """There is no PostgreSQL server on this machine."""


def _programs() -> Path:
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not versions:
        raise PostgresMissing("PostgreSQL's initdb is not installed")
    return versions[-1].parent


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty database, until the block ends."""
    programs, port = _programs(), free_port()
    is_root = os.geteuid() == 0  # the server refuses to run as root
    with tempfile.TemporaryDirectory(prefix="athena-postgres-") as folder:
        user = _USER if is_root else None
        if is_root:
            shutil.chown(folder, _USER)
        data = f"{folder}/data"
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", _USER, "-A", "trust", "-E", "UTF8", "-N"],
            check=True,
            capture_output=True,
            user=user,
            cwd=folder,
        )
        command: list[str | Path] = [
            programs / "postgres",
            *("-D", data, "-p", str(port), "-h", LOOPBACK, "-k", folder),
            *("-c", "fsync=off"),  # nothing here is worth keeping
        ]
        with process(command, port, user=user, folder=folder):
            yield f"postgres://{_USER}@{LOOPBACK}:{port}/postgres"
