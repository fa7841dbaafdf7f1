"""Request bodies like those of Claude Code: about 62 KB, of which each turn changes only the end.

They have twenty tools, a system prompt of 13 KB, and a history in which files were read. The text
is noise from a fixed seed, so every run sends the same bytes. A marker in the last message selects
the answer of the mock upstream.
"""

import json
import random
from pathlib import Path

from bench.scenarios import GROWING, IDLE, SCENARIOS

MODEL = "moonshotai/kimi-k2.5"
PROSE = (
    "you must read the file before edit and use absolute paths when running tests; prefer small "
    'changes, explain results in plain words — don\'t guess "values" or paths\n'
)
TOOLS = (
    "Task Bash Glob Grep LS ExitPlanMode Read Edit MultiEdit Write NotebookEdit WebFetch TodoWrite "
    "WebSearch BashOutput KillShell SlashCommand mcp__db__query mcp__git__log mcp__docs__search"
)
EPHEMERAL = {"type": "ephemeral"}


class Noise:
    """Random words."""

    def __init__(self) -> None:
        self._random = random.Random(7)

    def text(self, size: int) -> str:
        words = self._random.choices(PROSE.split(" "), k=size)
        return " ".join(words)[:size]


def _tool(name: str, noise: Noise) -> dict[str, object]:
    edit = {
        "type": "object",
        "properties": {"old_string": {"type": "string"}, "new_string": {"type": "string"}},
        "required": ["old_string", "new_string"],
        "additionalProperties": False,
    }
    properties: dict[str, object] = {
        field: {"type": "string", "description": noise.text(60)}
        for field in ("file_path", "content", "command", "description")
    }
    properties |= {
        "offset": {"type": "integer", "description": "The first line"},
        "limit": {"type": "integer", "description": "The number of lines", "minimum": 1},
        "mode": {"type": "string", "enum": ["content", "count"], "description": noise.text(60)},
        "edits": {"type": "array", "items": edit, "minItems": 1},
    }
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    return {"name": name, "description": noise.text(600), "input_schema": schema}


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def _history(noise: Noise) -> list[dict[str, object]]:
    reminder = _text("<system-reminder>\n" + noise.text(1500))
    history: list[dict[str, object]] = [
        {"role": "user", "content": [reminder, _text("Please fix the failing test.")]}
    ]
    for turn in range(4):
        call = {
            "type": "tool_use",
            "id": f"toolu_{turn:024d}",
            "name": "Read",
            "input": {"file_path": f"/home/user/project/src/module_{turn}.py", "limit": 200},
        }
        result = {
            "type": "tool_result",
            "tool_use_id": call["id"],
            "content": [_text("     1\t" + noise.text(2600))],
        }
        history.append({"role": "assistant", "content": [_text(noise.text(200)), call]})
        history.append({"role": "user", "content": [result]})
    history.append({"role": "assistant", "content": [_text(noise.text(120))]})
    return history


def body(letter: str, *, stream: bool) -> bytes:
    noise = Noise()
    last = _text(f"Go on. BENCH-SCENARIO:{letter} now.") | {"cache_control": EPHEMERAL}
    request = {
        "model": MODEL,
        "max_tokens": 8192,
        "temperature": 1,
        "system": [
            _text("You are Claude Code.") | {"cache_control": EPHEMERAL},
            _text(noise.text(13_000)) | {"cache_control": EPHEMERAL},
        ],
        "messages": [*_history(noise), {"role": "user", "content": [last]}],
        "tools": [_tool(name, noise) for name in TOOLS.split()],
        "metadata": {"user_id": "user_0123_account__session_4567"},
        "stream": stream,
    }
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()


def write_bodies(directory: Path) -> dict[str, Path]:
    """Write a file for each scenario; returns the paths by letter."""
    streamed = {entry.letter: entry.streamed for entry in (*SCENARIOS.values(), *GROWING)}
    streamed[IDLE] = True
    paths = {}
    for letter, stream in streamed.items():
        paths[letter] = directory / f"{letter}.json"
        paths[letter].write_bytes(body(letter, stream=stream))
    return paths
