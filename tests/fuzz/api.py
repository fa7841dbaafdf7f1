"""Schemathesis on `/api/` of a real gateway, as an operator's program."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.gateway import ROOT, Gateway

_CHECKS = (
    "not_a_server_error,response_schema_conformance,content_type_conformance,unsupported_method"
)
# A key that is used up, and a rate that is for people.
_RATE = "9/s"


def fuzz(seconds: float, folder: Path) -> tuple[str, bool]:
    """What it says, and whether nothing was found."""
    with tempfile.TemporaryDirectory(prefix="athena-fuzz-") as place:
        gateway = Gateway(Path(place)).start()
        try:
            return _fuzz(gateway, seconds, folder)
        finally:
            gateway.stop()


def _fuzz(gateway: Gateway, seconds: float, folder: Path) -> tuple[str, bool]:
    made = gateway.manage("token", "create", "admin")
    assert made.returncode == 0, made.stderr
    token = made.stdout.split()[-1]
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"),
            *("run", f"{gateway.url}/api/schema/", "-u", gateway.url),
            *("-H", f"Authorization: Bearer {token}"),
            *("--checks", _CHECKS, "--max-time", str(max(1, int(seconds)))),
            *("--rate-limit", _RATE, "--phases", "examples,coverage,fuzzing,stateful"),
            *("--continue-on-failure", "--no-color", "--report", "ndjson"),
            *("--report-dir", str(folder)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds + 300,
    )
    said = re.sub(re.escape(token), "(token)", done.stdout + done.stderr)
    (folder / "schemathesis.txt").write_text(said)
    defects = re.findall(r'"level": "ERROR".*', gateway.log)
    (folder / "gateway-errors.txt").write_text("\n".join(defects))
    return said, done.returncode == 0 and not defects
