"""The real opencode keeps thinking, tries again after an error, and runs calls written in text."""

import json

import pytest

from tests.e2e.native import STYLES, Call
from tests.e2e.opencode import PROVIDERS
from tests.support.chat import chunk, data, reply, stream
from tests.support.scripted_upstream import Reset
from tests.support.wire import calls, entry

pytestmark = pytest.mark.e2e
BREAKS = {
    "reports an error": reply(chunk({"content": "so"}), data({"error": {"message": "Full"}})),
    "is reset": [*reply(chunk({"content": "so"}), ends=False), Reset],
}


@pytest.fixture(params=PROVIDERS)
def dialect(request):
    return request.param


def shown(parts, kind):
    return [part["part"]["text"] for part in parts if part["type"] == kind]


def test_c1_thinking_before_a_call_comes_back(opencode, scripted, dialect):
    """C1: opencode dropped thinking that ended without a signature_delta."""
    (opencode.work / "tide.txt").write_text("high at noon")
    arguments = json.dumps({"filePath": "tide.txt"})
    call = calls(entry(0, "call_1", "read", arguments) | {"type": "function"})
    thoughts = [{"reasoning_content": "Hm, "}, {"reasoning_content": "look."}]
    script = scripted.script(
        model := f"test/opencode-thinks-{dialect}",
        reply(stream(*thoughts, call, finish="tool_calls")),
        reply(stream({"content": "At noon."})),
    )
    parts = opencode.run(dialect, model, "When is high tide?")
    assert shown(parts, "reasoning") == ["Hm, look."]
    assert shown(parts, "text") == ["At noon."]
    _, second = script.requests
    turn, result = second.json["messages"][-2:]
    assert turn["reasoning" if dialect == "anthropic" else "reasoning_content"] == "Hm, look."
    assert "high at noon" in result["content"]


@pytest.mark.parametrize("fault", BREAKS)
def test_c4_a_stream_that_breaks_is_tried_again(opencode, scripted, dialect, fault):
    """C4: opencode gives up at `api_error`; it tries again at the types that the gateway sends."""
    script = scripted.script(
        model := f"test/opencode-{fault.replace(' ', '-')}-{dialect}",
        BREAKS[fault],
        reply(stream({"content": "Done."})),
    )
    parts = opencode.run(dialect, model, "Hello")
    assert shown(parts, "text")[-1] == "Done."
    assert "error" not in {part["type"] for part in parts}
    assert len(script.requests) == 2


@pytest.mark.parametrize("style", ["kimi", "qwen-coder", "dsml-reasoning"])
def test_a_call_written_in_text_is_run(opencode, scripted, dialect, style):
    (opencode.work / "tide.txt").write_text("high at noon")
    style = STYLES[style]
    written = style.write([Call("read", {"filePath": "tide.txt"})])
    script = scripted.script(
        style.model,
        reply(stream({style.channel: written[:20]}, {style.channel: written[20:]})),
        reply(stream({"content": "At noon."})),
    )
    parts = opencode.run(dialect, style.model, "When is high tide?")
    [ran] = [part["part"] for part in parts if part["type"] == "tool_use"]
    assert (ran["tool"], ran["state"]["status"]) == ("read", "completed")
    assert ran["state"]["input"] == {"filePath": "tide.txt"}
    assert shown(parts, "text") == ["At noon."]
    assert "high at noon" in script.requests[1].json["messages"][-1]["content"]
