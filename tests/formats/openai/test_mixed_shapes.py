"""Requests of Cursor and other OpenAI clients that mix the shapes of several APIs."""

import json
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from formats import DIALECTS, ClientError, Conversation, NoticeCode, Target
from formats.conversation import (
    CacheMark,
    Document,
    Image,
    Message,
    Reasoning,
    ReasoningMode,
    RedactedReasoning,
    Role,
    Text,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from formats.openai.field_aliases import chat_fields
from tests.support.mixed_shapes import PIXEL, SCHEMA, TOOL_SHAPES, mixed, plain, spelled_tool, turns
from tests.support.strategies import prose, values

USER = {"role": "user", "content": "hi"}
TOOLS = [spelled_tool("f", "chat"), spelled_tool("g", "chat")]
KIMI = Target(native_ids="kimi", reasoning_field="reasoning_content")


def parse(**fields: Any) -> Conversation:
    request = {"model": "m", **fields}
    if "input" not in fields:
        request.setdefault("messages", [USER])
    return DIALECTS["openai"].parse(json.dumps(request).encode())


def parts(*content: Any, role: str = "user") -> tuple[Any, ...]:
    return parse(messages=[{"role": role, "content": list(content)}]).messages[0].parts


def render_body(conversation: Conversation, target: Target | None = None) -> Any:
    """The request that an OpenAI upstream gets."""
    return json.loads(DIALECTS["openai"].render(conversation, target or Target()).body)


def is_chat_content(messages: list[Any]) -> bool:
    """True if every content has only parts of Chat Completions."""
    contents = [message["content"] for message in messages if isinstance(message["content"], list)]
    assert [] not in contents
    kinds = {part["type"] for content in contents for part in content}
    return kinds <= {"text", "image_url", "file"}


def meaning(conversation: Conversation) -> Conversation:
    """The conversation without differences of form, and without cache marks."""
    joined: list[Message] = []
    for message in conversation.messages:
        if joined and joined[-1].role is message.role:
            joined[-1] = replace(joined[-1], parts=(*joined[-1].parts, *message.parts))
        else:
            joined.append(replace(message, path=""))
    return replace(
        conversation,
        messages=tuple(joined),
        system=tuple(replace(part, cache=None) for part in conversation.system),
        source={},
        body=b"",
        notices=(),
    )


@given(data=st.data(), conversation=turns(), system=st.just("") | prose.filter(str.strip))
@settings(max_examples=30)
def test_a_mixture_of_shapes_is_parsed_like_plain_chat_completions(data, conversation, system):
    spelled = [data.draw(st.sampled_from(TOOL_SHAPES)) for _ in range(2)]
    tools = [spelled_tool(name, shape) for name, shape in zip("fg", spelled, strict=True)]
    expected = parse(messages=plain(conversation, system), tools=TOOLS)
    parsed = parse(**data.draw(mixed(conversation, system)), tools=tools)
    assert meaning(parsed) == meaning(expected)
    # An upstream of the OpenAI dialect gets none of the other shapes either.
    assert render_body(parsed, KIMI) == render_body(expected, KIMI)
    assert is_chat_content(render_body(parsed)["messages"])


@pytest.mark.parametrize("shape", TOOL_SHAPES)
def test_a_tool_is_the_same_in_every_shape(shape):
    conversation = parse(tools=[spelled_tool("f", shape), spelled_tool("g", "chat")])
    assert conversation.tools == parse(tools=TOOLS).tools
    assert render_body(conversation)["tools"] == TOOLS


CHOICES: dict[str, tuple[Any, ToolChoice]] = {
    "auto": ("auto", ToolChoice()),
    "required": ("required", ToolChoice("any")),
    "none": ("none", ToolChoice("none")),
    "Anthropic's word": ("any", ToolChoice("any")),
    "a function": ({"type": "function", "function": {"name": "f"}}, ToolChoice("tool", "f")),
    "a flat function": ({"type": "function", "name": "f"}, ToolChoice("tool", "f")),
    "Anthropic's tool": ({"type": "tool", "name": "f"}, ToolChoice("tool", "f")),
    "Anthropic's any": ({"type": "any"}, ToolChoice("any")),
    "Anthropic's auto": ({"type": "auto"}, ToolChoice()),
    "Anthropic's none": ({"type": "none"}, ToolChoice("none")),
    "one at a time": (
        {"type": "any", "disable_parallel_tool_use": True}, ToolChoice("any", parallel=False),
    ),
    "a custom tool": ({"type": "custom", "custom": {"name": "f"}}, ToolChoice("tool", "f")),
    "a flat custom tool": ({"type": "custom", "name": "f"}, ToolChoice("tool", "f")),
}  # fmt: skip


@pytest.mark.parametrize(("choice", "expected"), CHOICES.values(), ids=CHOICES)
def test_tool_choice_is_parsed_in_every_shape(choice, expected):
    conversation = parse(tools=TOOLS, tool_choice=choice)
    assert conversation.tool_choice == expected
    assert render_body(conversation).get("tool_choice", "auto") in (
        "auto", "required", "none", {"type": "function", "function": {"name": "f"}},
    )  # fmt: skip


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]},
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [{"type": "function", "function": {"name": "g"}}],
            },
        },
    ],
)
def test_the_model_gets_only_the_allowed_tools(choice):
    conversation = parse(tools=TOOLS, tool_choice=choice)
    assert [tool.name for tool in conversation.tools] == ["g"]
    assert render_body(conversation)["tools"] == TOOLS[1:]
    assert render_body(conversation)["tool_choice"] == "required"


@pytest.mark.parametrize(
    ("function_call", "expected"),
    [
        ("none", ToolChoice("none")),
        ("auto", ToolChoice()),
        ({"name": "f"}, ToolChoice("tool", "f")),
    ],
)
def test_legacy_functions_and_their_choice_are_parsed(function_call, expected):
    functions = [tool["function"] for tool in TOOLS]
    conversation = parse(functions=functions, function_call=function_call)
    assert conversation.tools == parse(tools=TOOLS).tools
    assert conversation.tool_choice == expected


def test_the_result_of_a_legacy_call_names_the_function():
    conversation = parse(
        functions=[TOOLS[0]["function"]],
        messages=[
            USER,
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}},
            {"role": "function", "name": "f", "content": "done"},
        ],
    )
    assert conversation.messages[1].parts == (ToolCall("f", "f", b"{}"),)
    assert conversation.messages[2].parts == (ToolResult("f", (Text("done"),)),)
    assert render_body(conversation, KIMI)["messages"][2]["tool_call_id"] == "functions.f:0"


BLOCKS: dict[str, tuple[Any, Any]] = {
    "an image": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "AA"}},
        Image("image/gif", "AA"),
    ),
    "an image by its address": (
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        Image(url="https://x/y.png"),
    ),
    "a document": (
        {"type": "document", "title": "t", "source": {"type": "text", "data": "words"}},
        Document(text="words", title="t"),
    ),
    "a file of Responses": (
        {"type": "input_file", "filename": "t", "file_url": "https://x/y.pdf"},
        Document(url="https://x/y.pdf", title="t"),
    ),
    "an image of Responses": (
        {"type": "input_image", "detail": "auto", "image_url": PIXEL}, Image("image/png", "AAAA"),
    ),
    "text with a cache mark": (
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}, Text("x", CacheMark("ephemeral")),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("block", "part"), BLOCKS.values(), ids=BLOCKS)
def test_user_parts_are_parsed_in_every_shape(block, part):
    assert parts(block) == (part,)
    assert is_chat_content(
        render_body(parse(messages=[{"role": "user", "content": [block]}]))["messages"]
    )
    assert parts({"type": "tool_result", "tool_use_id": "a", "content": [block]}) == (
        ToolResult("a", (part,)),
    )


def test_blocks_of_the_assistant_are_parsed():
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "Ok."},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1.0}},
        {"type": "tool_use", "id": "b", "name": "f"},
    ]
    for block in content:
        turn = {"role": "assistant", "content": [{"type": "text", "text": "x"}, block]}
        assert is_chat_content(render_body(parse(messages=[turn]))["messages"])
    assert parts(*content, role="assistant") == (
        Reasoning("hm", "s"),
        RedactedReasoning("d"),
        Text("Ok."),
        ToolCall("a", "f", b'{"x": 1.0}'),
        ToolCall("b", "f", b"{}"),
    )


def test_a_result_may_be_an_error_and_contain_unsupported_parts():
    failed = {"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True}
    assert parts(failed) == (ToolResult("a", (Text("no"),), is_error=True),)
    conversation = parse(
        messages=[{"role": "tool", "tool_call_id": "a", "content": [
            {"type": "thinking", "thinking": "x"}, {"type": "hologram"}]}]
    )  # fmt: skip
    assert conversation.messages[0].parts == (ToolResult("a"),)
    named = {n.detail for n in conversation.notices if n.code is NoticeCode.CONTENT_UNSUPPORTED}
    assert named == {"reasoning in a result", "hologram part"}


@pytest.mark.parametrize("content", [[], None, ""])
def test_empty_content_next_to_calls_is_accepted(content):
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [USER, {"role": "assistant", "content": content, "tool_calls": [call]}]
    [_, turn, *_] = render_body(parse(messages=history, tools=TOOLS))["messages"]
    assert turn["content"] in (None, "")
    assert turn["tool_calls"] == [call]


def test_input_may_be_a_string():
    assert meaning(parse(input="hi")) == meaning(parse())


def test_items_of_one_answer_become_one_message():
    conversation = parse(input=[
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "message", "role": "assistant", "content": "And:"},
        {"type": "custom_tool_call", "call_id": "b", "name": "p", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": "done"},
        {"type": "function_call_output", "call_id": "a", "output": "done"},
    ])  # fmt: skip
    assert [message.role for message in conversation.messages] == [
        Role.USER, Role.ASSISTANT, Role.USER, Role.USER,
    ]  # fmt: skip
    assert conversation.messages[1].parts == (
        ToolCall("a", "f", b"{}"), Text("And:"), ToolCall("b", "p", b'{"input":"x"}'),
    )  # fmt: skip
    assert conversation.messages[1].path == "input.1"


def test_reasoning_encrypted_by_openai_is_dropped_with_a_notice():
    sealed = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "gAAAA"}
    conversation = parse(input=[USER, sealed, {"type": "web_search_call", "id": "w"}])
    assert len(conversation.messages) == 1
    details = {notice.detail for notice in conversation.notices}
    assert {"encrypted by OpenAI", "web_search_call item"} <= details


def test_fields_of_responses_are_renamed_to_chat_completions():
    schema = {"name": "n", "schema": SCHEMA, "strict": True}
    conversation = parse(
        input="hi",
        max_output_tokens=99,
        text={"format": {"type": "json_schema", **schema}, "verbosity": "low"},
        reasoning={"effort": "high", "summary": "auto"},
        include=["reasoning.encrypted_content"],
        previous_response_id=None,
        store=False,
        user="u",
        stream=True,
        stream_options={"include_usage": True, "include_obfuscation": False},
    )
    assert render_body(conversation) == {
        "model": "m",
        "messages": [USER],
        "max_tokens": 99,
        "response_format": {"type": "json_schema", "json_schema": schema},
        "verbosity": "low",
        "reasoning_effort": "high",
        "store": False,
        "user": "u",
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert conversation.sampling.max_tokens == 99
    assert conversation.reasoning == ReasoningMode(effort="high")
    assert json.loads(conversation.output_schema or b"") == SCHEMA
    assert conversation.include_usage
    dropped = [n.detail for n in conversation.notices if n.code is NoticeCode.FIELD_DROPPED]
    assert dropped == ["include", "store", "verbosity"]


def test_fields_only_responses_has_are_not_sent_to_a_chat_upstream():
    known = CompletionCreateParamsBase.__annotations__
    others = ResponseCreateParamsBase.__annotations__.keys() - known - {"text", "reasoning"}
    harmless = dict.fromkeys(others) | {"input": "hi"}
    assert chat_fields({n: json.dumps(v).encode() for n, v in harmless.items()}, {}).keys() <= {
        "max_tokens"
    }


@pytest.mark.parametrize(
    ("thinking", "mode"),
    [
        ({"type": "enabled", "budget_tokens": 2048}, ReasoningMode(enabled=True, budget=2048)),
        ({"type": "adaptive"}, ReasoningMode(enabled=True)),
        ({"type": "disabled"}, ReasoningMode(enabled=False)),
        (True, ReasoningMode()),
    ],
)
def test_anthropic_thinking_is_parsed_and_passed_on(thinking, mode):
    conversation = parse(thinking=thinking)
    assert conversation.reasoning == mode
    assert render_body(conversation)["thinking"] == thinking


def test_anthropic_stop_sequences_are_parsed():
    assert render_body(parse(stop_sequences=None)).keys().isdisjoint({"stop", "stop_sequences"})
    conversation = parse(stop_sequences=["END"])
    assert conversation.sampling.stop == ("END",)
    assert render_body(conversation)["stop"] == ["END"]


def test_server_tools_do_not_fail_the_request():
    server = [{"type": "web_search_20250305", "name": "web_search"}, {"type": "file_search"}]
    conversation = parse(tools=[*server, *TOOLS])
    assert render_body(conversation)["tools"] == [*server, *TOOLS]  # an upstream may have them
    for target, upstream in [(KIMI, "openai"), (Target(), "anthropic")]:
        rendered = DIALECTS[upstream].render(conversation, target)
        assert len(json.loads(rendered.body)["tools"]) == 2
        assert {n.detail for n in rendered.notices if n.code is NoticeCode.SERVER_TOOL_DROPPED} == {
            "web_search_20250305", "file_search",
        }  # fmt: skip


def test_translated_shapes_give_notices_and_other_requests_are_passed_through():
    request = {"messages": [{**USER, "name": "ann"}], "seed": 5, "user": "u", "tools": TOOLS}
    assert render_body(parse(**request)) == {
        "model": "m", **request, "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip
    conversation = parse(**request, tool_choice={"type": "any"}, system="Be kind.", sparkle=1)
    again = render_body(conversation)
    assert (again["seed"], again["sparkle"], again["user"]) == (5, 1, "u")
    assert again["messages"] == [{"role": "system", "content": "Be kind."}, USER]
    rendered = DIALECTS["openai"].render(conversation, Target())
    named = {n.detail for n in rendered.notices if n.code is NoticeCode.SHAPE_TRANSLATED}
    assert named == {"system", "tool_choice"}


MALFORMED = {
    "messages": {},
    "messages.0.content.1.type": {"messages": [{**USER, "content": [{"type": "text", "text": ""}, {}]}]},
    "messages.0.content.0.source": {"messages": [{**USER, "content": [{"type": "image"}]}]},
    "messages.0.content.0.id": {"messages": [{"role": "assistant", "content": [{"type": "tool_use"}]}]},
    "messages.0.content.0.input": {"messages": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": 5}]}]},
    "messages.0.content.0.tool_use_id": {"messages": [{**USER, "content": [{"type": "tool_result"}]}]},
    "messages.0.content: tool_use": {"messages": [
        {**USER, "content": [{"type": "tool_use", "id": "a", "name": "f"}]}]},
    "messages.0.content: tool_result": {"messages": [
        {"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]},
    "messages.0.tool_calls.0.custom.name": {"messages": [
        {"role": "assistant", "tool_calls": [{"id": "a", "type": "custom", "custom": {}}]}]},
    "input": {"input": 5},
    "input.0.role": {"input": [{"content": "x"}]},
    "input.1.call_id": {"input": [USER, {"type": "function_call", "name": "f"}]},
    "input.0.output": {"input": [{"type": "function_call_output", "call_id": "a", "output": 5}]},
    "input.0": {"input": [{"type": "item_reference", "id": "x"}]},
    "previous_response_id": {"input": "x", "previous_response_id": "resp_1"},
    "text": {"input": "x", "text": 5},
    "tools.1.name": {"messages": [USER], "tools": [TOOLS[0], {"type": "function"}]},
    "tools.0.custom.name": {"messages": [USER], "tools": [{"type": "custom", "custom": {}}]},
    "tools.0.format": {"messages": [USER], "tools": [{"type": "custom", "name": "p", "format": 5}]},
    "tools.0.input_schema": {"messages": [USER], "tools": [{"name": "f", "input_schema": []}]},
    "tool_choice.name": {"messages": [USER], "tools": TOOLS, "tool_choice": {"type": "tool"}},
    "tool_choice": {"messages": [USER], "tools": TOOLS, "tool_choice": {"type": "web_search"}},
    "system": {"messages": [USER], "system": 5},
    "stream": {"messages": [USER], "stream": "yes"},
}  # fmt: skip


@pytest.mark.parametrize(("path", "fields"), MALFORMED.items(), ids=MALFORMED)
def test_invalid_requests_are_refused_with_the_path_of_the_field(path, fields):
    with pytest.raises(ClientError) as refused:
        DIALECTS["openai"].parse(json.dumps({"model": "m", **fields}).encode())
    assert str(refused.value).startswith(path)
    error = DIALECTS["openai"].encode_error(
        refused.value.kind, str(refused.value), param=refused.value.path
    )
    assert json.loads(error)["error"] == {
        "message": str(refused.value),
        "type": "invalid_request_error",
        "param": path.partition(":")[0],
        "code": "invalid_request_error",
    }


_WORDS = """
    model messages input system instructions tools functions tool_choice function_call role content
    type text image_url source id name arguments tool_calls tool_call_id custom format output
    call_id summary response_format reasoning thinking stop stream_options user
"""
_KEYS = st.sampled_from(_WORDS.split())
_junk = st.recursive(
    values | st.floats() | st.sampled_from(["user", "assistant", "message", "tool_use", "custom"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=8,
)


def _parse_and_render(body: bytes) -> None:
    with suppress(ClientError):
        conversation = DIALECTS["openai"].parse(body)
        for dialect in DIALECTS.values():
            with suppress(ClientError):
                dialect.render(conversation, KIMI)


@given(fields=st.dictionaries(_KEYS, _junk, max_size=6))
@settings(max_examples=60)
def test_random_json_raises_only_client_errors(fields):
    _parse_and_render(json.dumps({"model": "m", "messages": [USER]} | fields).encode())
    _parse_and_render(json.dumps(fields).encode())


@given(data=st.data(), conversation=turns())
@settings(max_examples=40)
def test_junk_anywhere_in_a_mixture_raises_only_client_errors(data, conversation):
    request = deepcopy({"model": "m", "tools": TOOLS, **data.draw(mixed(conversation, "x"))})
    node: Any = request
    while isinstance(node, dict | list) and node:
        key = data.draw(st.sampled_from(list(node) if isinstance(node, dict) else range(len(node))))
        if not isinstance(node[key], dict | list) or data.draw(st.integers(0, 3)) == 0:
            node[key] = data.draw(_junk)
            break
        node = node[key]
    _parse_and_render(json.dumps(request).encode())
