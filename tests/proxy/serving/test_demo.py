"""The demo upstream works without any API key, over real HTTP."""

import httpx
import pytest

from proxy.serving.demo import MODELS, answer
from tests.support.chat import TOOLS, ask, read
from tests.support.gateway import KEY, Gateway


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    gateway = Gateway(tmp_path_factory.mktemp("demo")).start()
    yield gateway
    gateway.stop()


@pytest.mark.parametrize("name", [*MODELS, "claude-opus-4-8", "claude-sonnet-4-5", "some/standard"])
@pytest.mark.parametrize("streaming", [True, False])
def test_the_demo_model_calls_a_tool_in_its_own_format(demo, name, streaming):
    body = ask(name, "How is the tide in Moss?", tools=TOOLS, stream=streaming)
    with demo.client() as client:
        response = client.post("/v1/messages", json=body)
    if streaming:
        seen = read(response)
        assert seen.calls == [{"name": "get_tide", "arguments": {"harbor": "Moss"}}]
        assert "<" not in seen.text
    else:
        call = response.json()["content"][-1]
        assert (call["type"], call["input"]) == ("tool_use", {"harbor": "Moss"})


def test_a_tool_result_is_answered_with_text(demo):
    with demo.client() as client:
        body = ask("claude-sonnet-4-5", "How is the tide in Moss?", tools=TOOLS)
        first = client.post("/v1/messages", json=body).json()
        result = {
            "type": "tool_result",
            "tool_use_id": first["content"][-1]["id"],
            "content": "low",
        }
        body["messages"] += [
            {"role": "assistant", "content": first["content"]},
            {"role": "user", "content": [result]},
        ]
        second = client.post("/v1/messages", json=body).json()
    assert second["content"][0]["text"] == "The tool answered: low"
    assert second["stop_reason"] == "end_turn"


def test_without_tools_the_demo_model_explains_itself(demo):
    with demo.client() as client:
        answer = client.post("/v1/messages", json=ask("claude-sonnet-4-5")).json()
    assert "demo model" in answer["content"][0]["text"]


def test_the_demo_upstream_refuses_other_callers(demo):
    url = f"{demo.url}/demo/v1/chat/completions"
    assert httpx.post(url, json={}, headers={"authorization": f"Bearer {KEY}"}).status_code == 401


def _function(name, *required):
    properties = {field: {"type": "string"} for field in required}
    parameters = {"type": "object", "properties": properties, "required": [*required]}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


@pytest.mark.parametrize(
    ("text", "tools", "called"),
    [
        ("run `echo hi`", [_function("Read", "file_path"), _function("Bash", "command")], "Bash"),
        ("what is `a.txt`?", [_function("Write", "to", "text"), _function("Read", "path")], "Read"),
        ("what is a.txt?", [_function("Write", "to", "text"), _function("Read", "path")], None),
        ('it`s "fine"', [_function("Read", "path"), _function("Bash", "command")], None),
    ],
)
def test_a_value_in_backquotes_is_enough_to_call_a_tool(text, tools, called):
    """The demo model's introduction promises it."""
    messages = [{"role": "user", "content": text}]
    *_, last = answer({"model": "other", "messages": messages, "tools": tools})
    if called is None:
        assert "demo model" in last["content"]
    else:
        call = last["tool_calls"][0]["function"]
        assert (call["name"], call["arguments"].count(text.split("`")[1])) == (called, 1)


def test_the_demo_model_prefers_a_tool_that_the_user_names():
    functions = [
        {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string"}},
                "required": ["command"],
            },
        }
        for name in ("Read", "Bash")
    ]
    asked = {
        "model": "moonshotai/kimi-k2.5",
        "messages": [{"role": "user", "content": "Use bash to run `ls -l`"}],
        "tools": [{"type": "function", "function": function} for function in functions],
    }
    assert "functions.Bash:0" in [*answer(asked)][-1]["content"]
    assert "ls -l" in [*answer(asked)][-1]["content"]


@pytest.mark.parametrize("role", ["system", "user"])
def test_a_reminder_at_the_end_does_not_hide_the_users_words(demo, role):
    """C10: Claude Code ends its requests with a system message, which becomes a user turn."""
    reminder = "<system-reminder>The Bash tool reads files.</system-reminder>"
    body = ask("claude-opus-5", "How is the tide in Moss?", tools=TOOLS)
    body["messages"].append({"role": role, "content": reminder})
    with demo.client() as client:
        first = client.post("/v1/messages", json=body).json()
        call = first["content"][-1]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "low"}
        body["messages"] += [
            {"role": "assistant", "content": first["content"]},
            {"role": "user", "content": [result]},
            {"role": role, "content": reminder},
        ]
        second = client.post("/v1/messages", json=body).json()
    assert (call["type"], call["input"]) == ("tool_use", {"harbor": "Moss"})
    assert second["content"][0]["text"] == "The tool answered: low"
