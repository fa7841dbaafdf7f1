"""A blocked log reader delays no request: lines are queued, then dropped and counted."""

import fcntl
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from logging.handlers import QueueHandler

import pytest
from django.utils.module_loading import import_string

from athena_site.settings_logging import logging_settings
from proxy.telemetry.log_writer import QueuedLogHandler
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


def logger_of(handler):
    logger = logging.Logger("test")
    logger.addHandler(handler)
    return logger


def test_the_settings_name_no_class_that_python_3_12_would_pass_a_queue_to():
    handlers = logging_settings(level="INFO", formatter="json")["handlers"]
    assert handlers["console"]["()"] == "proxy.telemetry.log_writer.QueuedLogHandler"
    classes = [
        import_string(options["class"]) for options in handlers.values() if "class" in options
    ]
    assert not any(issubclass(kind, QueueHandler) for kind in classes)


def test_a_finalizer_may_log_in_a_thread_that_holds_the_lock_of_the_queue(pipe):
    """The garbage collector runs the finalizers of asyncio's tasks in any thread, at any place."""
    reader, writer = pipe
    handler = QueuedLogHandler(descriptor=writer)
    with handler.queue.mutex:
        assert handler.queue.mutex.acquire(timeout=1)  # a deadlock otherwise
        handler.queue.mutex.release()
        logger_of(handler).error("Task exception was never retrieved")
    handler.flush(20)
    assert os.read(reader, 100) == b"Task exception was never retrieved\n"


def test_lines_that_do_not_fit_are_counted_and_reported():
    reader, writer = os.pipe()
    handler = QueuedLogHandler(max_chars=10_000, descriptor=writer)
    logger = logger_of(handler)
    for number in range(3000):  # a handler that waits for the pipe would never return
        logger.info("line %d %s", number, "x" * 90)
    assert 1000 < handler.dropped < 3000
    handler.flush(0.1)  # returns although the pipe is full
    received = []
    reading = threading.Thread(target=read_all, args=(reader, received))
    reading.start()
    handler.flush(60)
    logger.info("the last")
    handler.flush(60)
    os.close(writer)
    reading.join(60)
    os.close(reader)
    text = b"".join(received)
    assert text.count(b"line ") == 3000 - handler.dropped
    assert b"\nthe last\n" in text
    reported = re.findall(rb"dropped (\d+) log lines", text)
    assert sum(map(int, reported)) == handler.dropped


def test_a_failing_write_drops_the_line_and_nothing_else():
    full = os.open("/dev/full", os.O_WRONLY)
    handler = QueuedLogHandler(descriptor=full)
    logger_of(handler).info("lost")
    wait_for(lambda: handler.dropped == 1)
    handler.flush()
    os.close(full)


def test_queued_lines_are_written_before_the_process_ends():
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


def test_requests_are_answered_and_the_process_ends_although_its_log_is_not_read(
    upstream, tmp_path, pipe
):
    reader, writer = pipe
    upstream.script("test/quiet", says("Good morning"))
    gateway = Gateway(tmp_path, OPENROUTER_API_KEY="x" * 20, OPENROUTER_BASE_URL=upstream.url)
    gateway.start(stderr=writer)
    with gateway.client() as client:
        for _ in range(60):  # each logs 300 characters
            assert client.post("/v1/messages", json=ask("test/quiet")).status_code == 200
    assert len(os.read(reader, 65536)) > 100  # the pipe was full
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.wait(60) == 0
    rows = gateway.rows("SELECT outcome FROM proxy_exchange WHERE model = 'test/quiet'")
    assert [row["outcome"] for row in rows] == ["ok"] * 60
