"""`make e2e`: installs Claude Code, Vercel's AI SDK and opencode, and runs the tests that drive them.

Arguments go to pytest. If one cannot be installed, its tests do not run, and a clearly visible note
is printed; the run succeeds: a machine without Node is not a defect of the gateway.
"""

import sys

import pytest

from tests.e2e import opencode, vercel
from tests.e2e.install import VERSION, NotInstalledError, install

_BAR = "!" * 88
_OTHERS = {"Vercel's AI SDK": vercel.install, f"opencode {opencode.VERSION}": opencode.install}


def main() -> int:
    try:
        binary = install()
    except NotInstalledError as error:
        sys.stdout.write(
            f"{_BAR}\nE2E SKIPPED: Claude Code {VERSION} was NOT driven through the gateway.\n"
            f"Reason: {error}\n{_BAR}\n"
        )
        return 0
    sys.stdout.write(f"Claude Code {VERSION}: {binary}\n")
    for name, install_client in _OTHERS.items():
        try:
            install_client()
        except NotInstalledError as error:
            sys.stdout.write(f"{_BAR}\nE2E SKIPPED: {name}.\nReason: {error}\n{_BAR}\n")
    sys.stdout.flush()
    return int(pytest.main(["-m", "e2e", "tests/e2e", *sys.argv[1:]]))


sys.exit(main())
