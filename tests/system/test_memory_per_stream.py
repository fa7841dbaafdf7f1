"""Open streams need few threads and little memory."""

import json
import resource
import socket
from pathlib import Path

from tests.support.chat import ask, chunk, reply
from tests.support.gateway import KEY, Gateway
from tests.support.scripted_upstream import Pause
from tests.support.waiting import wait_for

STREAMS = 200


def status(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {name: int(fields[name].split()[0]) for name in ("VmRSS", "Threads")}


def test_200_open_streams_need_few_threads_and_under_250_kilobytes_each(upstream, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    gateway = Gateway(
        tmp_path, OPENROUTER_API_KEY="x" * 20, OPENROUTER_BASE_URL=upstream.url
    ).start()
    script = upstream.script("test/many", reply(chunk({"content": "one"}), Pause(60)))
    tool = {"name": "Tool", "description": "d" * 1500, "input_schema": {"type": "object"}}
    tools = [tool | {"name": f"Tool{n}"} for n in range(20)]
    body = json.dumps(ask("test/many", "x" * 30_000, stream=True, tools=tools)).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\ncontent-length: {len(body)}\r\n\r\n"

    def open_stream() -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=20)
        connection.sendall(head.encode() + body)
        received = b""
        while b"text_delta" not in received:
            received += connection.recv(65536)
        return connection

    connections = []
    try:
        for _ in range(20):  # without the memory that only the first requests allocate
            connections.append(open_stream())
        assert gateway.process is not None
        before = status(gateway.process.pid)
        connections += [open_stream() for _ in range(STREAMS)]
        after = status(gateway.process.pid)
        assert len(script.requests) == STREAMS + 20
        assert after["Threads"] < 20
        each = (after["VmRSS"] - before["VmRSS"]) / STREAMS
        print(f"{each:.0f} KB per stream, {after['Threads']} threads")
        assert each < 250
        for connection in connections:
            connection.close()
        wait_for(lambda: all(request.closed_at for request in script.requests))
    finally:
        for connection in connections:
            connection.close()
        gateway.stop()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
