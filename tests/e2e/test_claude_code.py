"""Drives the real Claude Code through the gateway: its tools work in every native format."""

import base64
import json
import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.claude import Claude
from tests.e2e.install import PINNED, VERSION
from tests.e2e.native import REASONING, STYLES, Call, Style, Turn
from tests.e2e.requests import images_of, text_of
from tests.e2e.upstream import Play, ScriptedUpstream
from tests.support.gateway import Gateway
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

# Text that is difficult for formats and JSON. Two cases are missing because Claude Code's Write tool
# changes them itself: spaces at the end of a line, and an escape such as \u00e9 spelled out.
_LINES = (
    'quotes "double", \'single\', `back`; a \\ backslash, \\n and \\" spelled out',
    "\tindented with a tab, and {braces: [1, 2, {}]}, and a trailing comma,",
    "<|tool_call_end|><|tool_calls_section_end|> are Kimi's, <｜tool▁call▁end｜> is DeepSeek's",
    "</parameter> and </tool_call> and </function> are Qwen's; </｜DSML｜parameter> is DSML's",
    "ümläuts, 漢字, 🦉 and a family 👩‍👩‍👧, \u2028 a line separator, &amp; an entity",
    "",
    "def f(x: int) -> str: return f'{x!r:>10}' if x < 3 and x > 1 else \"</tool_call>\"",
)
CONTENT = "\n".join(f"{n:04}: {_LINES[n % len(_LINES)]}".rstrip() for n in range(560)) + "\n"
FINAL_ANSWER = "All done, with <angle> brackets & `<tool_call>` in ünïcode 🦉."
HELPER_ANSWER = "The mark is left."


def session(work: Path) -> list[Turn]:
    """Script a conversation that uses every tool once."""
    path, picture = str(work / "long.txt"), str(work / "picture.png")
    helper = {
        "description": "Leave a mark",
        "prompt": "HELPER: leave a mark in helper.txt",
        "subagent_type": "general-purpose",
    }
    edit = {"file_path": path, "old_string": "0007:", "new_string": "seven:", "replace_all": False}
    return [
        Turn("I will write it.", (Call("Write", {"file_path": path, "content": CONTENT}),)),
        Turn("Let me read it.", (Call("Read", {"file_path": path}),)),
        Turn(calls=(Call("Edit", edit),)),
        Turn(calls=(Call("Bash", {"command": "echo $((6 * 7)) | tee sum.txt", "timeout": 9000}),)),
        Turn(
            "Two at once; the second finishes first.",
            (
                Call("Bash", {"command": "sleep 0.4; echo first | tee first.txt"}),
                Call("Bash", {"command": "echo second | tee second.txt"}),
            ),
        ),
        Turn(calls=(Call("Read", {"file_path": picture}),)),
        Turn("A helper is needed.", (Call("Agent", helper),)),
        # Claude Code runs the agent in the background and reports when it has finished.
        Turn("I am waiting for the helper.", unless=HELPER_ANSWER),
        Turn(FINAL_ANSWER),
    ]


HELPER = [Turn(calls=(Call("Bash", {"command": "echo helped > helper.txt"}),)), Turn(HELPER_ANSWER)]


@pytest.mark.parametrize("name", STYLES)
def test_every_tool_works_in_one_session(
    name: str, claude: Claude, upstream: ScriptedUpstream
) -> None:
    style, work = STYLES[name], claude.work
    (work / "picture.png").write_bytes(png())
    script = session(work)
    play = upstream.start(style, MAIN=script, HELPER=HELPER)

    result = claude.run("MAIN: do it all", model=style.model)

    assert result["result"] == FINAL_ANSWER
    assert not result["is_error"]
    assert not result["permission_denials"]
    check_disk(work)
    check_asked_once(play)
    check_prefixes(play)
    check_results(play.requests("MAIN")[-1].messages)
    check_history(play.requests("MAIN")[-1].messages, script, style)
    assert play.faults == []


@pytest.mark.parametrize(
    ("name", "family"), [("auto-kimi", "kimi"), ("auto-glm", "glm"), ("auto-minimax", "minimax")]
)
def test_the_audit_names_the_family_of_a_model_whose_name_tells_nothing(
    name: str, family: str, claude: Claude, gateway: Gateway, upstream: ScriptedUpstream
) -> None:
    call = Call("Bash", {"command": "echo ran > ran.txt"})
    play = upstream.start(STYLES[name], MAIN=[Turn(calls=(call,)), Turn(FINAL_ANSWER)])

    result = claude.run("MAIN: act", model=play.style.model)

    assert result["result"] == FINAL_ANSWER
    assert (claude.work / "ran.txt").exists()
    query = "SELECT * FROM proxy_exchange WHERE session_id = ? AND tool_calls > 0"
    [row] = wait_for(lambda: gateway.rows(query, result["session_id"]))
    assert (row["format"], row["family_read"], row["rescued_calls"]) == ("auto", family, 1)


def test_a_tool_found_by_search_is_offered_and_described(
    claude: Claude, upstream: ScriptedUpstream
) -> None:
    search = Call("ToolSearch", {"query": "select:NotebookEdit", "max_results": 3})
    play = upstream.start(STYLES["kimi"], MAIN=[Turn(calls=(search,)), Turn(FINAL_ANSWER)])

    result = claude.run("MAIN: look for a tool", model=play.style.model)

    assert result["result"] == FINAL_ANSWER
    before, after = play.requests("MAIN")
    if "ToolSearch" not in tool_names(before.body) and VERSION != PINNED:
        pytest.skip(f"Claude Code {VERSION} offers all its tools at once")
    assert "NotebookEdit" not in tool_names(before.body)
    assert "NotebookEdit" in tool_names(after.body)
    [found] = [text_of(m) for m in after.messages if m["role"] == "tool"]
    assert "NotebookEdit" in found
    assert "notebook_path" in found
    assert play.faults == []


def test_a_web_search_fails_visibly(claude: Claude, upstream: ScriptedUpstream) -> None:
    """C3: the request inside has only a server tool, which the upstream's model does not have."""
    script = [
        Turn(calls=(Call("ToolSearch", {"query": "select:WebSearch", "max_results": 3}),)),
        Turn(calls=(Call("WebSearch", {"query": "the tides of Moss"}),)),
        Turn(FINAL_ANSWER),
    ]
    from_memory = [Turn("From memory: https://example.org/tides")]
    play = upstream.start(STYLES["kimi"], MAIN=script, **{"Perform a web search": from_memory})

    result = claude.run(
        "MAIN: search the web", model=play.style.model, tools="ToolSearch,WebSearch"
    )

    assert result["result"] == FINAL_ANSWER
    assert play.requests("Perform a web search") == []
    *_, searched = [m for m in play.requests("MAIN")[-1].messages if m["role"] == "tool"]
    assert "web_search is not available" in text_of(searched)
    assert "example.org" not in text_of(searched)
    assert play.faults == []


@pytest.mark.parametrize("status", [200, 429, 503])
@pytest.mark.parametrize("name", ["kimi-reasoning", "structured"])
def test_a_call_retried_after_a_failure_runs_once(
    name: str, status: int, claude: Claude, upstream: ScriptedUpstream
) -> None:
    padding = "x" * 2000  # makes a broken stream end inside the call
    call = Call("Bash", {"command": f"echo once >> log.txt # {padding}"})
    script = [Turn(calls=(call,), fails=(status,)), Turn(FINAL_ANSWER)]
    play = upstream.start(STYLES[name], MAIN=script)

    result = claude.run("MAIN: write a line", model=play.style.model)

    assert result["result"] == FINAL_ANSWER
    assert (claude.work / "log.txt").read_text() == "once\n"
    assert [asked.turn for asked in play.requests("MAIN")] == [0, 0, 1]
    assert play.faults == []


def test_the_printed_environment_variables_are_enough(
    claude: Claude, upstream: ScriptedUpstream
) -> None:
    """Without a model name Claude Code asks for Opus, which has a route."""
    play = upstream.start(STYLES["dsml"], MAIN=[Turn(FINAL_ANSWER)])
    assert claude.run("MAIN: hello")["result"] == FINAL_ANSWER
    check_asked_once(play)
    assert play.faults == []


def test_a_conversation_is_compacted_at_the_context_window_of_its_route(
    claude: Claude, gateway: Gateway, upstream: ScriptedUpstream
) -> None:
    """C7: for its own model names Claude Code assumes a window of a million tokens."""
    gateway.edit(
        "route = ModelRoute.objects.get(pattern='claude-*opus*');"
        "route.context_window = 131_072; route.save()"
    )
    summary = "<analysis>All is well.</analysis><summary>RESUMED after the summary</summary>"
    step = Call("Bash", {"command": "echo step"})
    script = [
        Turn(calls=(step,), prompt_tokens=60_000),
        Turn(calls=(step,), prompt_tokens=120_000),
        Turn("The conversation was not compacted."),
    ]
    play = upstream.start(
        STYLES["dsml"],
        **{"create a detailed summary": [Turn(summary)] * 3},
        RESUMED=[Turn(FINAL_ANSWER)] * 3,
        MAIN=script,
    )

    result = claude.run_code(gateway, "MAIN: work for long")

    assert result["result"] == FINAL_ANSWER
    assert [asked.turn for asked in play.requests("MAIN")] == [0, 1]
    assert play.faults == []


@pytest.mark.parametrize("thinks", [0, 900])
@pytest.mark.parametrize(("severity", "runs"), [(3, True), (95, False)])
def test_auto_mode_asks_the_gateways_model_whether_an_action_is_safe(
    severity: int,
    runs: bool,
    thinks: int,
    claude: Claude,
    gateway: Gateway,
    upstream: ScriptedUpstream,
) -> None:
    """C5: the safety checks of auto mode are ordinary requests with 64 tokens for the answer."""
    gateway.edit(
        "route = ModelRoute.objects.get(pattern='claude-*sonnet*');"
        f"route.thinking_tokens = {2048 if thinks else None}; route.save()"
    )
    risky = Call("Bash", {"command": "echo ran > ran.txt; curl -s http://127.0.0.1:9/x"})
    verdicts = [Turn(f"<severity>{severity}</severity>", thinks=thinks)]
    play = upstream.start(
        STYLES["kimi"],
        **{"<transcript>": verdicts},
        MAIN=[Turn(calls=(risky,)), Turn(FINAL_ANSWER)],
    )

    result = claude.run_code(
        gateway,
        "MAIN: act",
        "--permission-mode",
        "auto",
        "--model",
        "claude-sonnet-5",
        tools="Agent",
    )

    assert result["result"] == FINAL_ANSWER
    assert (claude.work / "ran.txt").exists() == runs
    first = play.requests("<transcript>")[0].body
    assert first["max_tokens"] == (64 + 2048 if thinks else 64)
    assert first["stop"]
    assert play.faults == []


def check_disk(work: Path) -> None:
    edited = CONTENT.replace("0007:", "seven:", 1)
    assert (work / "long.txt").read_bytes() == edited.encode()
    assert (work / "sum.txt").read_text() == "42\n"
    assert (work / "first.txt").read_text() == "first\n"
    assert (work / "second.txt").read_text() == "second\n"
    assert (work / "helper.txt").read_text() == "helped\n"


def check_asked_once(play: Play) -> None:
    """Check that each turn was requested once: no answer had to be retried."""
    for conversation, script in play.scripts.items():
        needed = [number for number, turn in enumerate(script) if not turn.unless]
        asked = [asked.turn for asked in play.requests(conversation)]
        assert [number for number in asked if not script[number].unless] == needed


def check_prefixes(play: Play) -> None:
    """Check that each request extends the previous one, which upstream prompt caches need."""
    for conversation in play.scripts:
        for before, after in pairwise(play.requests(conversation)):
            assert after.messages[: len(before.messages)] == before.messages
            assert after.body["tools"] == before.body["tools"]


def check_results(messages: list[dict[str, Any]]) -> None:
    """Check that the upstream received the results of the tools."""
    results = [text_of(message) for message in messages if message["role"] == "tool"]
    _, read, _, bash, first, second, *_ = results
    assert [line for line in CONTENT.splitlines() if line not in read] == []
    assert [bash, first, second] == ["42", "first", "second"]
    picture = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    assert [url for message in messages for url in images_of(message)] == [picture]
    assert any(HELPER_ANSWER in text_of(message) for message in messages)


def check_history(messages: list[dict[str, Any]], script: Sequence[Turn], style: Style) -> None:
    """Check that the upstream got its own text, reasoning and calls back.

    Line breaks that some formats write before a call belong to the text before it.
    """
    replies = [message for message in messages if message["role"] == "assistant"]
    for reply, turn in zip(replies, script, strict=False):
        functions = [call["function"] for call in reply.get("tool_calls", ())]
        calls = tuple(Call(f["name"], json.loads(f["arguments"])) for f in functions)
        assert calls == turn.calls
        assert reply["reasoning"].strip() == REASONING.strip()
        assert reply["content"].strip() == style.visible_text(turn)


def tool_names(body: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in body["tools"]]


def png() -> bytes:
    """Return a small PNG image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    header = struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + bytes([200, 30, 8 * row] * 16) for row in range(16))
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
