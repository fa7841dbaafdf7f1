"""`make fuzz`: each group for FUZZ_SECONDS; FUZZ_ON names the groups, FUZZ_TARGETS the targets."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz import hypotheses
from tests.fuzz.corpus import seeds
from tests.fuzz.found import save
from tests.fuzz.targets import TARGETS
from tests.support.gateway import ROOT

SECONDS = float(os.environ.get("FUZZ_SECONDS", "180"))
FOLDER = Path(os.environ.get("FUZZ_FOUND", ROOT / ".fuzz"))


def targets() -> list[str]:
    wanted = os.environ.get("FUZZ_TARGETS", "").split()
    return [name for name in TARGETS if not wanted or name in wanted]


def missing(package: str) -> bool:
    if find_spec(package) is not None:
        return False
    print(f"\nNOT FUZZED with {package}: it is not installed on this machine\n", file=sys.stderr)
    return True


def laws() -> bool:
    """The suite's own properties."""
    paths = ["tests/formats", "--ignore", "tests/formats/test_estimate.py"]
    command = [sys.executable, "-m", "pytest", "-p", "tests.fuzz.larger", "-n", "0", *paths]
    done = subprocess.run([*command, "-m", "hypothesis"], cwd=ROOT)
    return done.returncode == 0


def hypothesis() -> bool:
    names, is_well = targets(), True
    for name in names:
        tried, failure = hypotheses.fuzz(name, SECONDS / len(names), FOLDER)
        print(f"hypothesis {name}: {tried} inputs, {failure or 'nothing found'}", flush=True)
        is_well &= failure is None
    return is_well


def atheris() -> bool:
    if missing("atheris"):
        return True
    names, is_well = targets(), True
    for name in names:
        corpus = FOLDER / "corpus" / name
        for seed in seeds(name):
            save(FOLDER / "corpus", name, seed)
        found = FOLDER / name
        found.mkdir(parents=True, exist_ok=True)
        before = set(found.iterdir())
        seconds = max(1, int(SECONDS / len(names)))
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.fuzz.guided", name, str(corpus)),
                *(f"-max_total_time={seconds}", f"-artifact_prefix={found}/", "-max_len=1500"),
                *("-timeout=30", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0"),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        new = sorted(set(found.iterdir()) - before)
        ran = [line.split()[-1] for line in done.stderr.splitlines() if "executed_units" in line]
        print(f"atheris {name}: {''.join(ran) or '?'} inputs, {_verdict(new, done)}", flush=True)
        is_well &= done.returncode == 0 and not new
    return is_well


def _verdict(new: list[Path], done: "subprocess.CompletedProcess[str]") -> str:
    if not new and done.returncode == 0:
        return "nothing found"
    return f"found {[str(path) for path in new]}\n{(done.stdout + done.stderr)[-2500:]}"


def api() -> bool:
    if missing("schemathesis"):
        return True
    from tests.fuzz.api import fuzz

    said, is_well = fuzz(SECONDS, FOLDER / "api")
    print(said if not is_well else "\n".join(said.splitlines()[-25:]), flush=True)
    return is_well


GROUPS = {"laws": laws, "hypothesis": hypothesis, "atheris": atheris, "api": api}


def main() -> int:
    names = os.environ.get("FUZZ_ON", " ".join(GROUPS)).split()
    failed = [name for name in names if not GROUPS[name]()]
    print(f"fuzz: {'found something: ' + ', '.join(failed) if failed else 'nothing found'}")
    if failed:
        print(f"The inputs are in {FOLDER}; those in tests/fixtures/fuzz are tried by make test.")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
