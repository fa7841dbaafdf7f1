"""The installed packages are the tested ones: pinned and compatible."""

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file):
    lines = [line.split("#")[0].strip() for line in (ROOT / file).read_text().splitlines()]
    found = dict(line.split("==") for line in lines if line and not line.startswith("-"))
    return {normal(name.partition("[")[0]): version for name, version in found.items()}


def test_every_requirement_is_pinned_to_the_installed_version():
    for file in ("requirements.txt", "requirements-dev.txt", "constraints.txt"):
        for name, version in pins(file).items():
            try:
                assert distribution(name).version == version, (file, name)
            except PackageNotFoundError:
                assert file == "constraints.txt", name  # a constraint alone installs nothing


def test_indirect_dependencies_are_pinned():
    constraints = pins("constraints.txt")
    waiting, seen = list(pins("requirements.txt")), set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        assert name in constraints, f"{name} may be any version: renew constraints.txt"
        for text in distribution(name).requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                waiting.append(normal(needed.name))
    assert len(seen) > 25


def test_the_installed_packages_are_compatible():
    checked = subprocess.run(
        [sys.executable, "-m", "pip", "check"], capture_output=True, text=True, timeout=120
    )
    assert checked.returncode == 0, checked.stdout
