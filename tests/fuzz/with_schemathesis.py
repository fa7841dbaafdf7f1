"""Runs Schemathesis on `/api/` of a real gateway, with an operator's token."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.gateway import ROOT, Gateway

_CHECKS = (
    "not_a_server_error,response_schema_conformance,content_type_conformance,unsupported_method"
)
# Below the rate limit of the API.
_RATE = "9/s"


def fuzz(seconds: float, folder: Path) -> tuple[str, bool]:
    """Return its output, and True if it found no defect."""
    with tempfile.TemporaryDirectory(prefix="athena-fuzz-") as directory:
        gateway = Gateway(Path(directory)).start()
        try:
            return _fuzz(gateway, seconds, folder)
        finally:
            gateway.stop()


def _fuzz(gateway: Gateway, seconds: float, folder: Path) -> tuple[str, bool]:
    created = gateway.manage("token", "create", "admin")
    assert created.returncode == 0, created.stderr
    token = created.stdout.split()[-1]
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
    output = re.sub(re.escape(token), "(token)", done.stdout + done.stderr)
    (folder / "schemathesis.txt").write_text(output)
    defects = re.findall(r'"level": "ERROR".*', gateway.log)
    (folder / "gateway-errors.txt").write_text("\n".join(defects))
    return output, done.returncode == 0 and not defects
