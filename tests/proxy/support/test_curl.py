"""The curl command of an exchange, run by every shell that people paste it into."""

import json
import os
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.audit.transcripts.codec import TranscriptContent
from proxy.models import Exchange
from proxy.support.curl import CurlCommand, curl_command

SHELLS = {
    "sh": ["sh", "-c"],
    "dash": ["dash", "-c"],
    "bash": ["bash", "-c"],
    "bash with history": ["bash", "--norc", "-i", "-c"],
    "zsh": ["zsh", "-f", "-c"],
    "zsh with history": ["zsh", "-f", "-i", "-c"],
    "fish": ["fish", "--no-config", "-c"],
}
HOSTILE = [
    r"x\'; touch canary; echo \'",
    "x'; touch canary; '",
    "x\\'$(touch canary)",
    r"\\'; touch canary #",
    "$(touch canary)",
    "`touch canary`",
    "${IFS}(touch canary)",
    "(touch canary)",
    "!! !touch ^a^b",
    '"; touch canary; "',
    "x\n touch canary\n",
    "x\r\ntouch canary",
    "&& touch canary | touch canary > canary",
    "{a,b} * ? ~ [a] % =ls <(touch canary)",
    "ends with \\",
    "ends with two \\\\",
    "\x1b[2J\x07\x7f\x00",
    "ü ‘touch canary’ \u2028 \U0001f600 \ud800",
    "@/etc/passwd",
    "EOF\ntouch canary\nEOF",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a `curl` that writes its arguments to a file."""
    folder = tmp_path_factory.mktemp("curl")
    program = folder / "curl"
    program.write_text('#!/bin/sh\nprintf "%s\\0" "$@" > arguments\n')
    program.chmod(0o755)
    return folder


def arguments(folder, shell, command):
    """The arguments with which the shell runs curl."""
    if shutil.which(SHELLS[shell][0]) is None:
        pytest.skip(f"{shell} IS NOT INSTALLED, SO THE COMMAND WAS NOT TRIED: apt install zsh fish")
    for name in ("arguments", "canary"):
        (folder / name).unlink(missing_ok=True)
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "ATHENA_CLIENT_KEY": "the-key",
        "HOME": str(folder),
    }
    subprocess.run(
        [*SHELLS[shell], command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        start_new_session=True,
    )
    assert not (folder / "canary").exists(), "the shell ran a command of the request"
    return (folder / "arguments").read_bytes().decode().split("\0")[:-1]


def command_of(body, headers):
    content = TranscriptContent(request=json.dumps(body), headers=headers)
    command = curl_command(Exchange(dialect="anthropic"), content, "http://host:8000/")
    assert isinstance(command, CurlCommand)
    return command


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_sends_the_request_and_runs_nothing_else(folder, shell):
    """W8: hostile text in a header, in the content and as the name of a header."""
    for text in HOSTILE:
        body = {"model": text, text: [text, {"x": text + text}]}
        headers = {"user-agent": text, "x-app": "plain", f"x-{text}": "a"}
        command = command_of(body, headers)
        given = arguments(folder, shell, command.text)
        assert given[:2] == ["-N", "http://host:8000/v1/messages"]
        assert given[-2] == "--data-binary"
        assert json.loads(given[-1]) == body
        sent = given[3:-2:2]
        assert sent[0] == "x-api-key: the-key"
        expected = {"content-type": "application/json", **headers}
        kept = {name: expected[name] for name in expected.keys() - {*command.left_out}}
        assert sent[1:] == [f"{name}: {value}" for name, value in sorted(kept.items())]
        assert kept["x-app"] == "plain"


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(texts=st.lists(st.text("'\\\"$`!;(){} \n~*#ab\x7f", max_size=12), min_size=40, max_size=40))
@pytest.mark.parametrize("shell", ["dash", "bash", "zsh", "fish"])
def test_any_text_reaches_curl_unchanged(folder, shell, texts):
    command = command_of({"texts": texts}, {"user-agent": texts[0]})
    assert json.loads(arguments(folder, shell, command.text)[-1]) == {"texts": texts}


def test_headers_that_shells_read_differently_are_left_out_and_named():
    command = command_of({}, {"user-agent": "it's", "x-app": "a\\b", "x-b": "\x1b", "x-c": "ü"})
    assert command.left_out == ("user-agent", "x-app", "x-b", "x-c")
    assert "it's" not in command.text
    assert command.text.isascii()


@pytest.mark.parametrize(
    ("request_text", "left_out"),
    [("{", {}), ("{}", {"request": [1, 1]}), (f'"{"a" * 200_000}"', {}), ("[" * 5000, {})],
)
def test_an_incomplete_or_too_long_request_has_no_command(request_text, left_out):
    content = TranscriptContent(request=request_text, left_out=left_out)
    assert curl_command(Exchange(dialect="openai"), content, "http://host/") is None
