"""Complete conversations with tools through the official SDK, in every format."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx2
import pydantic
import pytest
from anthropic import beta_tool

from tests.support.chat import TOOLS, chunk, data, reply, says, stream
from tests.support.gateway import KEY, Gateway
from tests.support.scripted_upstream import Pause, Step, whole

Call = dict[str, Any]
QUESTION: Any = [{"role": "user", "content": "What is the tide?"}]
MOSS = {"harbor": "Moss", "days": 3}
OSLO = {"harbor": 'Oslo <fjord>\n"inner" 🐙', "days": 1}
BERGEN = {"harbor": "Bergen"}
FIRST = "I look twice. "
PIECE = 5  # characters per chunk


def kimi(calls: list[Call], count: int) -> str:
    written = "".join(
        f"<|tool_call_begin|>functions.get_tide:{number}"
        f"<|tool_call_argument_begin|>{json.dumps(call)}<|tool_call_end|>"
        for number, call in enumerate(calls, count)
    )
    return f"<|tool_calls_section_begin|>{written}<|tool_calls_section_end|>"


def qwen_coder(calls: list[Call], count: int) -> str:
    return "\n".join(
        "<tool_call>\n<function=get_tide>\n"
        + "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in call.items())
        + "</function>\n</tool_call>"
        for call in calls
    )


def hermes(calls: list[Call], count: int) -> str:
    return "\n".join(
        f"<tool_call>\n{json.dumps({'name': 'get_tide', 'arguments': call})}\n</tool_call>"
        for call in calls
    )


def deepseek(calls: list[Call], count: int) -> str:
    written = "".join(
        f"<｜tool▁call▁begin｜>get_tide<｜tool▁sep｜>{json.dumps(call)}<｜tool▁call▁end｜>"
        for call in calls
    )
    return f"<｜tool▁calls▁begin｜>{written}<｜tool▁calls▁end｜>"


def dsml(calls: list[Call], count: int) -> str:
    invokes = "".join(
        '<｜DSML｜invoke name="get_tide">\n'
        + "".join(
            f'<｜DSML｜parameter name="{name}" string="{str(isinstance(value, str)).lower()}">'
            f"{value}</｜DSML｜parameter>\n"
            for name, value in call.items()
        )
        + "</｜DSML｜invoke>\n"
        for call in calls
    )
    return f"<｜DSML｜function_calls>\n{invokes}</｜DSML｜function_calls>"


# Models, and how each writes calls into its text; None for an upstream with structured calls.
FORMATS: dict[str, tuple[str, Callable[[list[Call], int], str] | None]] = {
    "kimi": ("moonshotai/kimi-k2.5", kimi),
    "qwen coder": ("qwen/qwen3-coder", qwen_coder),
    "qwen hermes": ("qwen/qwen3-max", hermes),
    "deepseek v3.1": ("deepseek/deepseek-v3.1", deepseek),
    "deepseek dsml": ("deepseek/deepseek-v3.2", dsml),
    "auto": ("test/unheard-of", kimi),
    "auto, structured": ("test/another", None),
    "standard": ("openai/gpt-5", None),
}
MARKUP = ("<|tool", "<tool_call", "<function", "｜", "</")


def answer(name: str, text: str, calls: list[Call], count: int) -> list[Step]:
    """An answer of the upstream with text and calls, in small chunks."""
    write = FORMATS[name][1]
    if write is None:
        # Some upstreams restart the numbering of ids in every answer.
        deltas: list[dict[str, Any]] = [{"content": text}]
        for index, call in enumerate(calls):
            head = {"index": index, "id": f"call_{index}", "type": "function"}
            deltas.append({"tool_calls": [{**head, "function": {"name": "get_tide"}}]})
            for piece in pieces(json.dumps(call)):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        return reply(*map(chunk, deltas), chunk({}, "tool_calls"))
    wire = [chunk({"content": piece}) for piece in pieces(text + write(calls, count))]
    usage = {"prompt_tokens": 50, "completion_tokens": 20}
    return reply(*wire, chunk({}, "stop"), data({"choices": [], "usage": usage}))


def pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE]


def check_history(messages: list[dict[str, Any]], calls: list[Call], *, native_ids: bool) -> None:
    """Check what upstreams require: every call is events next, in order, by its own id."""
    ids: list[str] = []
    arguments: list[Call] = []
    due: list[str] = []
    for message in messages:
        assert isinstance(message["content"], str)
        if message["role"] == "tool":
            assert message["tool_call_id"] == due.pop(0)
            assert message["content"] == f"low in {arguments[len(ids) - len(due) - 1]['harbor']}"
            continue
        assert not due
        due = [call["id"] for call in message.get("tool_calls", ())]
        ids += due
        for call in message.get("tool_calls", ()):
            assert (call["type"], call["function"]["name"]) == ("function", "get_tide")
            arguments.append(json.loads(call["function"]["arguments"]))
        if due:
            assert not any(mark in message["content"] for mark in MARKUP)
    assert not due
    assert arguments == calls
    assert len(set(ids)) == len(ids)
    if native_ids:
        assert ids == [f"functions.get_tide:{number}" for number in range(len(ids))]


@pytest.fixture(scope="module")
def sdk(gateway: Gateway) -> Iterator[anthropic.Anthropic]:
    transport = httpx2.Client(trust_env=False, timeout=30)
    with anthropic.Anthropic(
        api_key=KEY, base_url=gateway.url, http_client=transport, max_retries=0
    ) as client:
        yield client


def ask(sdk: anthropic.Anthropic, streamed: bool, **fields: Any) -> Any:
    if not streamed:
        return sdk.messages.create(max_tokens=100, **fields)
    with sdk.messages.stream(max_tokens=100, **fields) as events:
        return events.get_final_message()


def results(message: Any) -> dict[str, Any]:
    """Results for the calls of a message, in reverse order."""
    calls = [block for block in message.content if block.type == "tool_use"]
    blocks = [
        {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": f"low in {call.input['harbor']}",
        }
        for call in reversed(calls)
    ]
    return {"role": "user", "content": blocks}


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_conversation_with_parallel_calls_runs_to_its_end(sdk, upstream, name, streamed):
    model = FORMATS[name][0]
    script = upstream.script(
        model,
        answer(name, FIRST, [MOSS, OSLO], 0),
        answer(name, "", [BERGEN], 2),
        says("Low everywhere."),
    )
    messages = [*QUESTION]
    seen = []
    for text, calls in ((FIRST.strip(), [MOSS, OSLO]), ("", [BERGEN])):
        message = ask(sdk, streamed, model=model, messages=messages, tools=TOOLS)
        assert message.stop_reason == "tool_use"
        assert "".join(b.text for b in message.content if b.type == "text").strip() == text
        blocks = [block for block in message.content if block.type == "tool_use"]
        assert [(call.name, call.input) for call in blocks] == [
            ("get_tide", call) for call in calls
        ]
        seen += [call.id for call in blocks]
        messages += [{"role": "assistant", "content": message.content}, results(message)]
    last = ask(sdk, streamed, model=model, messages=messages, tools=TOOLS)
    assert (last.content[0].text, last.stop_reason) == ("Low everywhere.", "end_turn")
    assert len(set(seen)) == 3
    first, second, third = (request.json["messages"] for request in script.requests)
    assert first == QUESTION
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    check_history(second, [MOSS, OSLO], native_ids=name == "kimi")
    check_history(third, [MOSS, OSLO, BERGEN], native_ids=name == "kimi")


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", FORMATS)
def test_the_tool_runner_is_refused_its_thread_and_sends_the_history(sdk, upstream, name, streamed):
    model = FORMATS[name][0]
    script = upstream.script(
        model,
        answer(name, FIRST, [MOSS, BERGEN], 0),
        answer(name, "", [BERGEN], 2),
        says("Low everywhere."),
    )
    asked = []

    @beta_tool  # type: ignore[untyped-decorator]
    def get_tide(harbor: str, days: int = 1) -> str:
        """The tide in a harbor."""
        asked.append(harbor)
        return f"low in {harbor}"

    runner = sdk.beta.messages.tool_runner(
        model=model,
        max_tokens=100,
        tools=[get_tide],
        messages=QUESTION,
        stream=streamed,
        max_iterations=9,
    )
    if streamed:
        turns = [turn.get_final_message() for turn in runner]
    else:
        turns = [*runner]
    assert turns[-1].content[0].text == "Low everywhere."
    assert asked == ["Moss", "Bergen", "Bergen"]
    assert len(turns) == len(script.requests) == 3
    for request in script.requests:
        assert request.json["tools"][0]["function"]["name"] == "get_tide"
    history = script.last.json["messages"]
    check_history(history, [MOSS, BERGEN, BERGEN], native_ids=name == "kimi")


def test_concurrent_conversations_do_not_mix(gateway, upstream):
    for name, (model, _) in FORMATS.items():
        upstream.script(model, answer(name, f"{name}: ", [{"harbor": name}], 0))

    async def converse(client: anthropic.AsyncAnthropic, name: str) -> anthropic.types.Message:
        async with client.messages.stream(
            model=FORMATS[name][0],
            max_tokens=100,
            messages=QUESTION,
            tools=TOOLS,  # type: ignore[arg-type]
        ) as events:
            return await events.get_final_message()

    async def converse_all() -> list[anthropic.types.Message]:
        transport = httpx2.AsyncClient(trust_env=False, timeout=30)
        async with anthropic.AsyncAnthropic(
            api_key=KEY, base_url=gateway.url, http_client=transport, max_retries=0
        ) as client:
            return await asyncio.gather(*(converse(client, name) for name in [*FORMATS] * 4))

    messages = asyncio.run(converse_all())
    for name, message in zip([*FORMATS] * 4, messages, strict=True):
        text, call = message.content
        assert (text.text.strip(), call.input) == (f"{name}:", {"harbor": name})
    assert len({message.id for message in messages}) == len(messages)


def test_pings_before_the_message_are_accepted(sdk, upstream, model):
    upstream.script(model, [Pause(2.1), *says("At last.")])
    with sdk.messages.stream(model=model, max_tokens=9, messages=QUESTION) as events:
        assert [*events.text_stream] == ["At last."]
        message = events.get_final_message()
    assert (message.stop_reason, message.usage.input_tokens > 0) == ("end_turn", True)


def test_the_sdk_knows_all_events(sdk, upstream, model):
    upstream.script(model, says("Hi"))
    events = sdk.messages.create(model=model, max_tokens=9, messages=QUESTION, stream=True)
    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_thinking_is_read(sdk, upstream, model):
    upstream.script(model, reply(stream({"reasoning": "Hm."}, {"content": "Hi"})))
    for streamed in (True, False):
        thinking, text = ask(sdk, streamed, model=model, messages=QUESTION).content
        assert (thinking.thinking, thinking.signature, text.text) == ("Hm.", "", "Hi")


class Tide(pydantic.BaseModel):
    harbor: str
    meters: float


def test_a_parsed_answer_asks_the_upstream_for_its_schema(sdk, upstream, model):
    script = upstream.script(model, says('{"harbor": "Moss", "meters": 0.5}'))
    message = sdk.messages.parse(model=model, max_tokens=9, messages=QUESTION, output_format=Tide)
    assert message.parsed_output == Tide(harbor="Moss", meters=0.5)
    schema = script.last.json["response_format"]["json_schema"]["schema"]
    assert set(schema["properties"]) == {"harbor", "meters"}


def test_models_are_listed_and_described(sdk):
    listed = [*sdk.models.list(limit=2)]
    assert {"claude-opus", "claude-sonnet", "claude-haiku"} <= {model.id for model in listed}
    assert all(model.type == "model" and model.display_name for model in listed)
    assert len(listed) > 2  # there was a second page
    assert len({model.id for model in listed}) == len(listed)
    assert sdk.models.retrieve("claude-opus").id == "claude-opus"


def test_tokens_are_counted(sdk):
    few = sdk.messages.count_tokens(model="m", messages=QUESTION).input_tokens
    more = sdk.messages.count_tokens(
        model="m", messages=QUESTION, system="Be kind.", tools=TOOLS
    ).input_tokens
    assert 0 < few < more
    assert sdk.beta.messages.count_tokens(model="m", messages=QUESTION).input_tokens == few


def test_the_headers_of_an_answer_name_the_request(sdk, upstream, model):
    upstream.script(model, says("Hi"))
    asked = {"model": model, "max_tokens": 9, "messages": QUESTION}
    raw = sdk.messages.with_raw_response.create(**asked)
    assert raw.headers["request-id"] == raw.headers["x-request-id"] == raw.request_id
    assert raw.parse()._request_id == raw.request_id
    with sdk.messages.with_streaming_response.create(**asked, stream=True) as streaming:
        assert streaming.headers["content-type"] == "text/event-stream"
        assert streaming.request_id.startswith("req_")
        assert b"Hi" in streaming.read()


ERRORS = {
    400: anthropic.BadRequestError,
    401: anthropic.InternalServerError,  # the gateway's own credential, so a 502
    404: anthropic.NotFoundError,
    413: anthropic._exceptions.ContentTooLargeError,
    422: anthropic.BadRequestError,
    429: anthropic.RateLimitError,
    500: anthropic.InternalServerError,
    502: anthropic.InternalServerError,
    503: anthropic._exceptions.OverloadedError,
    504: anthropic._exceptions.GatewayTimeoutError,
    529: anthropic._exceptions.OverloadedError,
}


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(("status", "error"), ERRORS.items(), ids=map(str, ERRORS))
def test_an_error_is_of_the_class_for_its_status(sdk, upstream, model, status, error, streamed):
    upstream.script(model, whole({"error": {"message": "why"}}, status=status))
    with pytest.raises(anthropic.APIStatusError) as raised:
        ask(sdk, streamed, model=model, messages=QUESTION)
    assert type(raised.value) is error
    assert raised.value.request_id == raised.value.response.headers["request-id"]
    assert raised.value.body["request_id"] == raised.value.request_id


def test_a_wrong_key_is_an_authentication_error_and_is_tried_once(gateway):
    sent = []
    transport = httpx2.Client(trust_env=False, event_hooks={"request": [sent.append]})
    with (
        anthropic.Anthropic(
            api_key="sk-athena-wrong", base_url=gateway.url, http_client=transport, max_retries=2
        ) as stranger,
        pytest.raises(anthropic.AuthenticationError) as raised,
    ):
        stranger.models.list()
    assert raised.value.type == "authentication_error"
    assert len(sent) == 1


def test_a_refused_gateway_credential_is_tried_once(sdk, upstream, model):
    script = upstream.script(model, whole({"error": {"message": "no"}}, status=401))
    retrying = sdk.with_options(max_retries=2)
    with pytest.raises(anthropic.InternalServerError):
        ask(retrying, False, model=model, messages=QUESTION)
    assert len(script.requests) == 1


def test_an_error_in_the_stream_is_raised_with_its_type(sdk, upstream, model):
    error = {"error": {"message": "why", "code": 429}}
    upstream.script(model, reply(chunk({"content": "Half "}), Pause(0.1), data(error)))
    events = sdk.messages.create(model=model, max_tokens=9, messages=QUESTION, stream=True)
    texts = (event.delta.text for event in events if event.type == "content_block_delta")
    assert next(texts) == "Half "
    with pytest.raises(anthropic.APIStatusError) as raised:
        next(texts)
    assert raised.value.type == "rate_limit_error"
