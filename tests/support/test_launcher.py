"""Forked programs behave like ordinary processes."""

import os
import signal
import subprocess

import pytest

from tests.support.launcher import Launched, can_launch

PROGRAM = """
import os, sys, threading
threading.Thread(target=lambda: print(sys.stdin.read(), os.getpid(), dict(os.environ))).start()
{}
"""


@pytest.fixture
def launched(tmp_path):
    def launched(last, **environment):
        path = tmp_path / "program.py"
        path.write_text(PROGRAM.format(last))
        (tmp_path / "in").write_text("given")
        with (
            (tmp_path / "in").open() as stdin,
            (tmp_path / "out").open("w") as out,
            (tmp_path / "errors").open("w") as errors,
        ):
            descriptors = {"stdin": stdin.fileno(), "stdout": out.fileno()}
            return Launched(
                [str(path), "one"], environment=environment, **descriptors, stderr=errors.fileno()
            )

    return launched


@pytest.mark.parametrize(
    ("last", "code", "error"),
    [
        ("sys.exit(3)", 3, ""),
        ("sys.exit('in words')", 1, "in words\n"),
        ("sys.exit(sys.argv != [__file__, 'one'])", 0, ""),
        ("sys.exit(os.getcwd() in sys.path)", 1, ""),
    ],
)
def test_exit_status_and_output_are_those_of_the_program(launched, tmp_path, last, code, error):
    process = launched(last, ONLY="this")
    assert process.wait(30) == process.poll() == code
    output = f"given {process.pid} {{'ONLY': 'this'}}\n"
    assert ((tmp_path / "out").read_text(), (tmp_path / "errors").read_text()) == (output, error)


def test_an_exception_is_printed(launched, tmp_path):
    assert launched("1 / 0").wait(30) == 1
    assert "ZeroDivisionError" in (tmp_path / "errors").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_can_be_waited_for_and_receives_signals(launched, number):
    process = launched("import time; time.sleep(60)")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)
    process.send_signal(number)
    assert process.wait(30) == -number
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
    process.kill()  # has no effect after the end


def test_variables_of_the_interpreter_and_the_linker_rule_out_a_fork():
    assert can_launch({**os.environ, "ATHENA_PORT": "9"})
    assert not can_launch({**os.environ, "LD_PRELOAD": "skew.so"})
    assert not can_launch({**os.environ, "PYTHONPATH": "elsewhere"})
