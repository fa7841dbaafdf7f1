"""`make fuzz`: runs each group for FUZZ_SECONDS; FUZZ_ON selects groups, FUZZ_TARGETS targets."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz import with_hypothesis
from tests.fuzz.corpus import seeds
from tests.fuzz.failing_inputs import save
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
    print(f"\nNOT FUZZED with {package}: it is not installed.\n", file=sys.stderr)
    return True


def laws() -> bool:
    """Run the property tests of the suite."""
    paths = ["tests/formats", "--ignore", "tests/formats/test_token_estimate.py"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.fuzz.repeated_properties",
        "-n",
        "0",
        *paths,
    ]
    done = subprocess.run([*command, "-m", "hypothesis"], cwd=ROOT)
    return done.returncode == 0


def hypothesis() -> bool:
    names, has_passed = targets(), True
    for name in names:
        tried, failure = with_hypothesis.fuzz(name, SECONDS / len(names), FOLDER)
        print(f"hypothesis {name}: {tried} inputs, {failure or 'nothing found'}", flush=True)
        has_passed &= failure is None
    return has_passed


def atheris() -> bool:
    if missing("atheris"):
        return True
    names, has_passed = targets(), True
    for name in names:
        corpus = FOLDER / "corpus" / name
        for seed in seeds(name):
            save(FOLDER / "corpus", name, seed)
        failing = FOLDER / name
        failing.mkdir(parents=True, exist_ok=True)
        before = set(failing.iterdir())
        seconds = max(1, int(SECONDS / len(names)))
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.fuzz.with_atheris", name, str(corpus)),
                *(f"-max_total_time={seconds}", f"-artifact_prefix={failing}/", "-max_len=1500"),
                *("-timeout=30", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0"),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        new = sorted(set(failing.iterdir()) - before)
        ran = [line.split()[-1] for line in done.stderr.splitlines() if "executed_units" in line]
        print(f"atheris {name}: {''.join(ran) or '?'} inputs, {_verdict(new, done)}", flush=True)
        has_passed &= done.returncode == 0 and not new
    return has_passed


def _verdict(new: list[Path], done: "subprocess.CompletedProcess[str]") -> str:
    if not new and done.returncode == 0:
        return "nothing found"
    return f"found {[str(path) for path in new]}\n{(done.stdout + done.stderr)[-2500:]}"


def api() -> bool:
    if missing("schemathesis"):
        return True
    from tests.fuzz.with_schemathesis import fuzz

    output, has_passed = fuzz(SECONDS, FOLDER / "api")
    print(output if not has_passed else "\n".join(output.splitlines()[-25:]), flush=True)
    return has_passed


GROUPS = {"laws": laws, "hypothesis": hypothesis, "atheris": atheris, "api": api}


def main() -> int:
    names = os.environ.get("FUZZ_ON", " ".join(GROUPS)).split()
    failed = [name for name in names if not GROUPS[name]()]
    print(f"fuzz: {'found something: ' + ', '.join(failed) if failed else 'nothing found'}")
    if failed:
        print(f"The inputs are in {FOLDER}. Copy them to tests/fixtures/fuzz for make test.")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
