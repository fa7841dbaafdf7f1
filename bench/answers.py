"""Checks the answers of a gateway: text, tool calls and stop reason.

This module uses no code of the gateway, so that a defect cannot hide itself.
"""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.scenarios import Scenario
from bench.servers import LOOPBACK, Server

TIMEOUT_SECONDS = 60


@dataclass(slots=True)
class Answer:
    """An answer as the client gets it."""

    text: str = ""
    calls: list[tuple[str, list[str]]] = field(default_factory=list)
    """Tool names, and the pieces of their arguments as JSON."""
    stop_reason: str | None = None
    ended: bool = False


def _read_whole(body: bytes) -> Answer:
    message = json.loads(body)
    answer = Answer(stop_reason=message["stop_reason"], ended=True)
    for block in message["content"]:
        if block["type"] == "text":
            answer.text += block["text"]
        else:
            answer.calls.append((block["name"], [json.dumps(block["input"])]))
    return answer


def _read_event(answer: Answer, event: Mapping[str, Any]) -> None:
    match event["type"]:
        case "content_block_start" if event["content_block"]["type"] == "tool_use":
            answer.calls.append((event["content_block"]["name"], []))
        case "content_block_delta" if "text" in event["delta"]:
            answer.text += event["delta"]["text"]
        case "content_block_delta" if "partial_json" in event["delta"]:
            answer.calls[-1][1].append(event["delta"]["partial_json"])
        case "message_delta":
            answer.stop_reason = event["delta"].get("stop_reason") or answer.stop_reason
        case "message_stop":
            answer.ended = True


def _read_stream(body: bytes) -> Answer:
    answer = Answer()
    for line in body.decode().split("\n"):
        data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        if data and data != "[DONE]":  # some gateways send it after the end; clients ignore it
            _read_event(answer, json.loads(data))
    return answer


def _size(arguments: str) -> int:
    """The length of JSON without optional white space."""
    return len(json.dumps(json.loads(arguments), separators=(",", ":")))


def _ask(server: Server, body: bytes) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(LOOPBACK, server.port, timeout=TIMEOUT_SECONDS)
    headers = dict(header.split(": ", 1) for header in server.headers)
    try:
        connection.request(
            "POST", server.dialect.path, body, {"Content-Type": "application/json", **headers}
        )
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def mistakes(server: Server, scenario: Scenario, body: Path) -> list[str]:
    """Differences between the answer and the expected one; empty if it is correct."""
    try:
        status, data = _ask(server, body.read_bytes())
    except (OSError, http.client.HTTPException) as error:
        return [f"no answer: {error!r}"]
    if status != 200:
        return [f"status {status}: {data[:300].decode(errors='replace')}"]
    try:
        answer = _read_stream(data) if scenario.streamed else _read_whole(data)
        calls = tuple((name, _size("".join(arguments))) for name, arguments in answer.calls)
    except (ValueError, LookupError) as error:
        return [f"not a message: {error!r}"]
    pairs = {
        "characters of text": (len(answer.text), scenario.text),
        "tool calls": (calls, scenario.calls),
        "stop reason": (answer.stop_reason, scenario.stop_reason),
        "complete": (answer.ended, True),
    }
    return [
        f"{name}: {got}, expected {expected}"
        for name, (got, expected) in pairs.items()
        if got != expected
    ]
