"""A log that nobody reads delays nobody: lines wait, are dropped and counted, and come out later."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from proxy.telemetry.log_writer import Sink
from tests.support.chat import ask, says
from tests.support.gateway import ROOT, Gateway
from tests.support.waiting import wait_for


@pytest.fixture
def pipe():
    """A pipe with room for one page."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    yield reader, writer
    for descriptor in (reader, writer):
        os.close(descriptor)


def read_all(reader, received):
    while part := os.read(reader, 65536):
        received.append(part)


def test_lines_for_which_there_is_no_room_are_counted_and_confessed():
    reader, writer = os.pipe()
    sink = Sink(most=10_000, descriptor=writer)
    began = time.monotonic()
    for number in range(3000):
        sink.put(f"line {number} " + "x" * 90)
    assert time.monotonic() - began < 10
    assert 1000 < sink.dropped < 3000
    sink.flush(0.1)  # nobody reads: it gives up
    received = []
    reading = threading.Thread(target=read_all, args=(reader, received))
    reading.start()
    sink.flush(20)
    sink.put("the last")
    sink.flush(20)
    os.close(writer)
    reading.join(20)
    os.close(reader)
    text = b"".join(received)
    assert text.count(b"line ") == 3000 - sink.dropped
    assert b"\nthe last\n" in text
    confessed = re.findall(rb"(\d+) lines were dropped here", text)
    assert sum(map(int, confessed)) == sink.dropped


def test_a_sink_that_takes_nothing_costs_lines_and_nothing_else():
    full = os.open("/dev/full", os.O_WRONLY)
    sink = Sink(descriptor=full)
    sink.put("to nobody")
    wait_for(lambda: sink.dropped == 1)
    sink.flush()
    os.close(full)


def test_what_was_said_last_is_written_before_the_process_ends():
    code = (
        "import django, logging; django.setup()\n"
        "for n in range(500): logging.getLogger('athena.x').warning('word %d', n)"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "athena_site.settings"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, timeout=60
    )
    assert done.stderr.count(b"word ") == 500
    assert b"word 499" in done.stderr.splitlines()[-1]


def test_requests_are_answered_and_the_process_ends_though_nobody_reads_its_log(
    upstream, tmp_path, pipe
):
    reader, writer = pipe
    upstream.script("test/quiet", says("Good morning"))
    gateway = Gateway(tmp_path, OPENROUTER_API_KEY="x" * 20, OPENROUTER_BASE_URL=upstream.url)
    gateway.start(stderr=writer)
    with gateway.client() as client:
        for _ in range(60):  # of 300 characters each
            assert client.post("/v1/messages", json=ask("test/quiet")).status_code == 200
    assert len(os.read(reader, 65536)) > 100  # there was no room for the next lines
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.wait(40) == 0
    rows = gateway.rows("SELECT outcome FROM proxy_exchange WHERE model = 'test/quiet'")
    assert [row["outcome"] for row in rows] == ["ok"] * 60
