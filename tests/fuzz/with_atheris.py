"""Runs Atheris on one target, guided by the coverage of `formats`.

Usage: `python -m tests.fuzz.with_atheris TARGET …`, with options and folders of libFuzzer.
"""

import sys

import atheris

with atheris.instrument_imports(include=["formats"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    check = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
