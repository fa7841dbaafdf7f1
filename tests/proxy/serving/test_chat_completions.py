"""OpenAI clients: the same keys, routes and formats, in their own dialect."""

import httpx
import openai
import pytest

from tests.support.calls_in_text import CALL, NATIVE
from tests.support.chat import reply, says, stream
from tests.support.client_views import view
from tests.support.gateway import KEY
from tests.support.scripted_upstream import whole

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_tide",
            "parameters": {
                "type": "object",
                "properties": {"harbor": {"type": "string"}, "days": {"type": "integer"}},
            },
        },
    }
]


@pytest.fixture
def sdk(gateway):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def ask(model, **fields):
    return {"model": model, "messages": [{"role": "user", "content": "Hello"}], **fields}


@pytest.mark.parametrize("name", NATIVE)
def test_a_call_in_the_text_becomes_tool_calls_in_both_modes(gateway, sdk, upstream, name):
    model = f"{name}-chat"
    text = NATIVE[name]
    upstream.script(model, reply(*(stream({"content": text}),)))
    response = httpx.post(
        f"{gateway.url}/v1/chat/completions",
        json=ask(model, tools=TOOLS, stream=True),
        headers={"authorization": f"Bearer {KEY}"},
    )
    seen = view(response.content, "openai")
    assert seen.calls == [{"name": "get_tide", "arguments": CALL}]
    assert (seen.text, seen.stop) == ("", "tool_calls")
    assert response.content.endswith(b"data: [DONE]\n\n")
    answer = sdk.chat.completions.create(**ask(model, tools=TOOLS))
    [call] = answer.choices[0].message.tool_calls
    assert (call.function.name, answer.choices[0].finish_reason) == ("get_tide", "tool_calls")
    assert (answer.model, answer.id) == ("m", "chatcmpl-1")  # the upstream's own


def test_the_sdks_stream_helper_rebuilds_the_answer(sdk, upstream, model):
    upstream.script(model, says("Good morning"))
    with sdk.chat.completions.stream(**ask(model)) as events:
        for _ in events:
            pass
        final = events.get_final_completion()
    assert final.choices[0].message.content == "Good morning"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
def test_errors_have_the_shape_of_openai(sdk, upstream, model, status, error):
    upstream.script(model, whole({"error": {"message": "it says no"}}, status))
    with pytest.raises(error, match="it says no") as caught:
        sdk.chat.completions.create(**ask(model))
    assert caught.value.request_id.startswith("req_")


def test_the_exchange_is_recorded_in_its_own_dialect(gateway, sdk, upstream, model):
    upstream.script(model, says("Hi"))
    sdk.chat.completions.create(**ask(model))
    row = gateway.exchange(model=model)
    assert (row["dialect"], row["outcome"]) == ("openai", "ok")
