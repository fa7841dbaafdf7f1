"""The Makefile on the machine of a new user: it says what is missing, and recovers by itself.

Each test copies it to a directory whose name has spaces, with a project that needs no packages.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAKE = shutil.which("make") or "make"


class Project:
    def __init__(self, path: Path) -> None:
        self.path = path / "my first project"
        (self.path / ".ci").mkdir(parents=True)
        shutil.copy(ROOT / "Makefile", self.path)
        shutil.copy(ROOT / ".ci" / "install", self.path / ".ci")
        (self.path / "manage.py").write_text("import sys; print('started', sys.version_info[:2])")
        self.require("")
        self.programs = path / "programs"
        self.programs.mkdir()

    def require(self, package: str) -> None:
        (self.path / "requirements.txt").write_text(package)

    def add_program(self, name: str, script: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def make(
        self, *arguments: str, python: str = sys.executable, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "PIP_"))}
        path = f"{self.programs}:/usr/bin:/bin"
        return subprocess.run(
            [MAKE, *arguments, f"PYTHON={python}"],
            cwd=self.path,
            env=kept | {"PATH": path} | environment,
            capture_output=True,
            text=True,
        )

    @property
    def venv(self) -> Path:
        return self.path / ".venv"


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_a_start_installs_once_and_renews_a_broken_environment(project):
    """N5. Without pip, as when ensurepip failed; without its Python, after a system upgrade."""
    venv.create(project.venv, symlinks=True, with_pip=False)
    first = project.make("run")
    assert first.returncode == 0, first.stderr
    assert "Installing the packages of requirements.txt" in first.stderr
    assert "started" in first.stdout
    second = project.make("run")
    assert (second.returncode, second.stderr) == (0, "")
    (project.venv / "bin" / "python").unlink()
    (project.venv / "bin" / "python").symlink_to("/nowhere/python3")
    third = project.make("run")
    assert "started" in third.stdout, third.stderr


def test_no_network_is_named_and_the_next_start_works(project):
    """N5. pip alone ends with "No matching distribution found", whatever the cause.

    Any other failure is shown as pip describes it.
    """
    project.require("some-package==1.0")
    offline = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:1/simple/",
        "PIP_RETRIES": "1",
    }
    done = project.make("run", **offline)
    assert done.returncode != 0
    assert "The package index cannot be reached: there is no network" in done.stderr
    assert "No matching distribution" not in done.stderr
    project.require("not a requirement")
    done = project.make("run", **offline)
    assert done.returncode != 0
    assert "Invalid requirement" in done.stderr
    assert "network" not in done.stderr
    project.require("")
    again = project.make("run", **offline)
    assert "started" in again.stdout, again.stderr


PROBLEMS = {
    "an old Python": ("echo Python 3.9.18; exit 1", "is Python 3.9.18. Install a newer one"),
    "no ensurepip": (
        f'case "$2" in *ensurepip*) exit 1 ;; esac; exec "{sys.executable}" "$@"',
        "On Debian and Ubuntu, run: apt install python3-venv",
    ),
}


@pytest.mark.parametrize(("script", "message"), PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("target", ["run", ".venv/testing"])
def test_an_unusable_python_is_named_and_leaves_nothing(project, script, message, target):
    """N5. For users and for developers."""
    shutil.copy(project.path / "requirements.txt", project.path / "requirements-dev.txt")
    project.add_program("python-of-this-machine", script)
    done = project.make(target, python="python-of-this-machine")
    assert done.returncode != 0
    assert message in done.stderr
    assert not project.venv.exists()


def test_a_missing_python_is_named(project):
    """N5."""
    done = project.make("run", python="python-that-is-missing")
    assert (
        "Athena needs Python 3.11 or newer, but there is no python-that-is-missing" in done.stderr
    )


def test_a_directory_that_is_not_an_environment_is_not_deleted(project):
    """N5. `VENV` may be set to any directory."""
    (project.path / "documents").mkdir()
    (project.path / "documents" / "letter").touch()
    done = project.make("run", "VENV=documents")
    assert done.returncode != 0
    assert "documents is not a virtual environment" in done.stderr
    assert (project.path / "documents" / "letter").exists()


@pytest.mark.parametrize("is_root", [True, False])
def test_root_is_told_before_a_package_is_installed(project, is_root):
    """N8. A program that records its arguments stands in for apt-get."""
    project.add_program("id", f"echo {0 if is_root else 1000}")
    project.add_program("apt-get", 'echo "apt-get $*"')
    for name in ("expr", "nproc"):
        (project.programs / name).symlink_to(shutil.which(name) or f"/usr/bin/{name}")
    done = project.make("redis", "SHELL=/bin/sh", PATH=str(project.programs))
    lines = [line for line in done.stdout.splitlines() if "apt-get" in line]
    assert done.returncode == 0, done.stderr
    if not is_root:
        assert lines == []
        return
    assert lines[0].endswith("Running as root: apt-get install redis-server")
    assert lines[1] == "apt-get update -qq"
    assert lines[2].endswith("-y redis-server")
