"""Compiles the C programs if a source file is newer."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE / "build"


class CompilerMissing(Exception):
    """`cc` is not installed."""


@dataclass(frozen=True, slots=True)
class Programs:
    mock_upstream: Path
    loadgen: Path


def _compile(compiler: str, name: str, *sources: str) -> Path:
    program = BUILD / name
    newest = max(path.stat().st_mtime for path in HERE.glob("*.[ch]"))
    if not program.exists() or program.stat().st_mtime < newest:
        paths = [str(HERE / source) for source in sources]
        command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(program), *paths]
        subprocess.run(command, check=True)
    return program


def compile_programs() -> Programs:
    compiler = shutil.which("cc")
    if not compiler:
        raise CompilerMissing("cc is needed to compile the load generator: install gcc or clang")
    BUILD.mkdir(exist_ok=True)
    return Programs(
        mock_upstream=_compile(compiler, "mock_upstream", "mock_upstream.c", "mock_answers.c"),
        loadgen=_compile(compiler, "loadgen", "loadgen.c", "http_answer.c"),
    )
