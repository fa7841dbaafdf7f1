"""Cursor through the gateway: mixed shapes in, strict chunks out, over real HTTP."""

import json

import httpx
import openai
import pytest

from tests.support.chat import says
from tests.support.custom_tools import FLAT, NESTED, PATCH, structured
from tests.support.gateway import KEY
from tests.support.openai_reader import read
from tests.support.scripted_upstream import reply

READ = {"type": "function", "name": "Read", "parameters": {"type": "object"}}
HISTORY = [
    {"role": "user", "content": [{"type": "input_text", "text": "Fix it."}]},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "call_id": "call_0", "name": "Read", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_0", "output": "teh"},
]


def post(gateway, **fields):
    return httpx.post(
        f"{gateway.url}/v1/chat/completions",
        json=fields,
        headers={"authorization": f"Bearer {KEY}"},
    )


def test_a_request_in_the_responses_shape_is_answered_in_chat_chunks(gateway, upstream, model):
    script = upstream.script(model, says("Fixed."))
    response = post(gateway, model=model, input=HISTORY, tools=[READ], stream=True, user="u")
    answer = read(response.content)
    assert (answer.text, answer.finish, answer.usage) == ("Fixed.", "stop", None)
    sent = script.last.json
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool"]
    assert sent["tools"][0]["function"]["name"] == "Read"
    assert "input" not in sent
    assert gateway.exchange(model=model)["outcome"] == "ok"


@pytest.mark.parametrize("tool", [NESTED, FLAT], ids=["nested", "flat"])
def test_a_patch_becomes_a_custom_tool_call_in_both_modes(gateway, upstream, model, tool):
    body = structured(json.dumps({"input": PATCH}), [3, 12, 30, 50])
    upstream.script(model, reply(body))
    request = {"model": model, "messages": [{"role": "user", "content": "Fix it."}]}
    response = post(gateway, **request, tools=[READ, tool], stream=True)
    [call] = read(response.content).calls
    assert (call["type"], call["name"], call["text"]) == ("custom", "ApplyPatch", PATCH)
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as client:
        answer = client.chat.completions.create(**request, tools=[NESTED])
    [call] = answer.choices[0].message.tool_calls
    assert (call.type, call.custom.name, call.custom.input) == ("custom", "ApplyPatch", PATCH)


def test_an_invalid_request_is_a_400_that_names_the_place(gateway, model):
    response = post(gateway, model=model, input=[{"type": "function_call", "name": "f"}])
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith("input.0.call_id: is required")
