"""Scripted upstream over real sockets: answers each request with the next turn of its script.

The number of assistant messages in the request selects the turn, so a repeated request gets the same
answer; all requests are recorded. A word in the first or the last message identifies the
conversation.
"""

import json
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

from tests.e2e.native import Style, Turn, deltas
from tests.e2e.requests import faults_of, text_of

_MAX_CHARS = 1500


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request and the turn that answers it."""

    conversation: str
    turn: int
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body["messages"]
        return messages


@dataclass(slots=True)
class Play:
    """The scripts of one test and the requests received so far."""

    style: Style
    scripts: dict[str, Sequence[Turn]]
    """Turns by the word that identifies the conversation."""
    record: list[ReceivedRequest] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def answer(self, body: dict[str, Any]) -> Turn:
        texts = [text_of(message) for message in body["messages"]]
        roles = [message["role"] for message in body["messages"]]
        number = roles.count("assistant")
        opening = texts[: roles.index("assistant") if number else None]
        for word, script in self.scripts.items():
            if any(word in text for text in [*opening, texts[-1]]) and number < len(script):
                unless = script[number].unless
                number += bool(unless) and any(unless in text for text in texts)
                self.record.append(ReceivedRequest(word, number, body))
                return script[number]
        self.record.append(ReceivedRequest("?", number, body))
        self.faults.append(f"no script has a turn {number} for: {opening[-1][-200:]!r}")
        return Turn("No script for this conversation.")

    def maybe_failure(self, turn: Turn) -> int | None:
        """Return the failure status for the latest request, if it is to fail."""
        last = self.record[-1]
        times = [asked.turn for asked in self.requests(last.conversation)].count(last.turn)
        return turn.fails[times - 1] if times <= len(turn.fails) else None

    def requests(self, conversation: str) -> list[ReceivedRequest]:
        """Return the requests of a conversation in order."""
        return [asked for asked in self.record if asked.conversation == conversation]


class ScriptedUpstream:
    def __init__(self, key: str) -> None:
        self.key = key
        self.play = Play(Style("", None), {})
        self._server = _Server(("127.0.0.1", 0), _Exchange)
        self._server.upstream = self
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def start(self, style: Style, **scripts: Sequence[Turn]) -> Play:
        """Answer with these scripts from now on."""
        self.play = Play(style, scripts)
        return self.play

    def __enter__(self) -> "ScriptedUpstream":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def evidence(self) -> str:
        """Describe all requests and their faults for a test report."""
        lines = [f"FAULT {fault}" for fault in self.play.faults]
        for asked in self.play.record:
            last = json.dumps(asked.messages[-1], ensure_ascii=False)[:_MAX_CHARS]
            lines.append(f"{asked.conversation} turn {asked.turn}, {len(asked.messages)} messages")
            lines.append(f"    … {last}")
        return "\n".join(lines)


class _Server(ThreadingHTTPServer):
    upstream: ScriptedUpstream
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.upstream.play.faults.append(f"an answer failed: {sys.exception()!r}")


class _Exchange(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        play = self.server.upstream.play
        content = self.rfile.read(int(self.headers["content-length"]))
        body = json.loads(content)
        play.faults += faults_of(
            content, dict(self.headers), model=play.style.model, key=self.server.upstream.key
        )
        turn = play.answer(body)
        failure = play.maybe_failure(turn)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.send_response(failure or 200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if body["max_tokens"] <= turn.thinks:
            stream = b"".join(_cut_thinking(body["max_tokens"]))
        else:
            stream = b"".join(_chunks(play.style, turn, prompt=len(content) // 4))
        if failure == 200:
            stream = stream[: len(stream) // 2]
        elif failure is not None:
            stream = b'{"error":{"message":"The model is busy."}}'
        for part in _reads(stream):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        self.close_connection = failure == 200
        if not self.close_connection:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing; requests are recorded."""


def _chunks(style: Style, turn: Turn, *, prompt: int) -> Iterator[bytes]:
    yield b": OPENROUTER PROCESSING\n\n"
    written = 0
    for written, delta in enumerate(deltas(style, turn), 1):  # noqa: B007
        yield _chunk([{"index": 0, "delta": delta, "finish_reason": None}])
    # An upstream that does not know the native format treats the calls as text.
    finish = "tool_calls" if turn.calls and style.write is None else "stop"
    yield _chunk([{"index": 0, "delta": {}, "finish_reason": finish}])
    prompt = prompt if turn.prompt_tokens is None else turn.prompt_tokens
    yield _chunk([], usage={"prompt_tokens": prompt, "completion_tokens": written})
    yield b"data: [DONE]\n\n"


def _cut_thinking(max_tokens: int) -> Iterator[bytes]:
    """The answer of a model whose thinking takes all the tokens it was allowed."""
    thought = {"role": "assistant", "reasoning_content": "Hm. " * max_tokens}
    yield _chunk([{"index": 0, "delta": thought, "finish_reason": None}])
    yield _chunk([{"index": 0, "delta": {}, "finish_reason": "length"}])
    yield _chunk([], usage={"prompt_tokens": 1, "completion_tokens": max_tokens})
    yield b"data: [DONE]\n\n"


def _chunk(choices: list[dict[str, Any]], **fields: Any) -> bytes:
    head = {"id": "gen-1", "object": "chat.completion.chunk", "model": "scripted"}
    payload = json.dumps({**head, "choices": choices, **fields}, ensure_ascii=False)
    return b"data: %b\n\n" % payload.encode()


def _reads(stream: bytes) -> Iterator[bytes]:
    """Cut the stream at arbitrary places, even inside characters and events."""
    random, start = Random(len(stream)), 0
    while start < len(stream):
        end = start + random.randint(1, 3000)
        yield stream[start:end]
        start = end
