"""A client that sends raw bytes, valid or not, and reports whether its connection was closed."""

import http.client
import json
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.gateway import KEY, Gateway

_ESTABLISHED = "01"  # in /proc/net/tcp


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    is_closed: bool
    """True if the server closed the connection after the answer."""

    @property
    def json(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.body)
        return body

    @property
    def code(self) -> str:
        return self.headers.get("x-athena-error", "")


def post(body: object, *headers: str, path: str = "/v1/messages", key: str = KEY) -> bytes:
    """Return the bytes of a request; framing headers that are given replace the correct one."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    framing = [] if _has_framing(headers) else [f"content-length: {len(data)}"]
    lines = [f"POST {path} HTTP/1.1", "host: x", f"x-api-key: {key}", *framing, *headers]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + data


def connect(port: int, data: bytes = b"", *, receive_buffer: int = 0) -> socket.socket:
    connection = socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", port))
    connection.sendall(data)
    return connection


def start_request(gateway: Gateway, body: object) -> socket.socket:
    """Send a request and return its connection; closing it is what a killed client does."""
    return connect(gateway.port, post(body, "content-type: application/json"))


def answer(connection: socket.socket, *, patience: float = 0.3) -> Answer:
    """Read an answer; wait up to `patience` seconds for the server to close the connection."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    body = response.read()
    headers = {name.lower(): value for name, value in response.getheaders()}
    is_over = patience > 0 and is_closed(connection, patience)
    return Answer(response.status, headers, body, is_over)


def ask_raw(port: int, data: bytes, *, patience: float = 0.3) -> Answer:
    with connect(port, data) as connection:
        return answer(connection, patience=patience)


def is_closed(connection: socket.socket, patience: float) -> bool:
    connection.settimeout(patience)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def has_server_closed(connection: socket.socket) -> bool:
    """Return whether the server has closed its end, although its data has not been read."""
    client, server = connection.getsockname()[1], connection.getpeername()[1]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_ = line.split()
        if (int(local.split(":")[1], 16), int(remote.split(":")[1], 16)) == (server, client):
            return state != _ESTABLISHED
    return True


def closed_after(connection: socket.socket, patience: float = 60) -> float:
    """Return the seconds until the server closes the connection."""
    began = time.monotonic()
    assert is_closed(connection, patience), "the server never closed the connection"
    return time.monotonic() - began


def _has_framing(headers: tuple[str, ...]) -> bool:
    return any(
        header.lower().lstrip().startswith(("content-length", "transfer-encoding"))
        for header in headers
    )
