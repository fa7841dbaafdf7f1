"""Translation of requests from one dialect to the other."""

import itertools
import json

import pytest

from formats import DIALECTS, ClientError, NoticeCode, Target
from formats.history import INTERRUPTED

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
KIMI = Target(native_ids="kimi", reasoning_field="reasoning_content")


def body(**fields):
    return {"model": "m", "max_tokens": 9, "messages": [user("hi")], **fields}


def user(*content):
    return {
        "role": "user",
        "content": list(content) if not isinstance(content[0], str) else content[0],
    }


def assistant(*content):
    return {"role": "assistant", "content": list(content)}


def text(value, **fields):
    return {"type": "text", "text": value, **fields}


def tool_use(call_id, name="f", **given):
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def result(call_id, content="done", **fields):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def tool(name="f", **fields):
    return {"name": name, "description": "d", "input_schema": SCHEMA, **fields}


PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
PDF = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "BBBB"},
}


def rendered(request, *, client="anthropic", upstream="openai", target=None):
    conversation = DIALECTS[client].parse(json.dumps(request).encode())
    return DIALECTS[upstream].render(conversation, target or Target())


def to_openai(request, target=None):
    return json.loads(rendered(request, target=target).body)


def to_anthropic(request, target=None):
    return json.loads(rendered(request, client="openai", upstream="anthropic", target=target).body)


def codes(request, **options):
    return [notice.code for notice in rendered(request, **options).notices]


def details(request, **options):
    return {notice.detail for notice in rendered(request, **options).notices}


# System prompts


@pytest.mark.parametrize("system", ["Be kind.", [text("Be"), text("kind.")], [text("Be\n\nkind.")]])
def test_system_as_string_or_blocks_is_one_message_at_the_front(system):
    messages = to_openai(body(system=system))["messages"]
    assert messages[0]["role"] == "system"
    assert messages[0]["content"].split() == ["Be", "kind."]
    assert [message["role"] for message in messages] == ["system", "user"]


@pytest.mark.parametrize("content", ["Env.", [text("Env.")]])
def test_p4_a_system_message_in_the_middle_becomes_user_text_in_place(content):
    inline = {"role": "system", "content": content, "output_config": {"effort": "high"}}
    messages = to_openai(body(messages=[user("hi"), inline, user("go")]))["messages"]
    assert [message["role"] for message in messages] == ["user"] * 3
    assert messages[1]["content"] == "<system-reminder>\nEnv.\n</system-reminder>"


def test_p4_an_empty_system_message_is_left_out():
    inline = {"role": "system", "content": []}
    assert len(to_openai(body(messages=[user("hi"), inline]))["messages"]) == 1


def test_p4_a_system_message_between_call_and_result_does_not_separate_them():
    inline = {"role": "system", "content": "Env."}
    history = [user("hi"), assistant(tool_use("a")), inline, user(result("a"))]
    roles = [m["role"] for m in to_openai(body(messages=history))["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]


def test_p16_the_billing_line_is_removed_for_other_upstreams_only():
    line = "x-anthropic-billing-header: cc_version=2.1.325.0dc; cc_entrypoint=cli;"
    request = body(system=[text(line), text("Be kind.")])
    assert to_openai(request)["messages"][0]["content"] == "Be kind."
    kept = json.loads(rendered(request, upstream="anthropic").body)
    assert kept["system"][0]["text"] == line


def test_p16_two_turns_share_their_prefix_byte_for_byte():
    env = {"type": "text", "text": "Env.", "cache_control": {"type": "ephemeral"}}
    first = body(tools=[tool()], messages=[user("hi"), {"role": "system", "content": [env]}])
    second = body(
        tools=[tool()],
        messages=[
            user("hi"),
            {"role": "system", "content": "Env."},
            assistant(text("Ok."), tool_use("x1", a=1.5)),
            user(result("x1")),
        ],
    )
    third = {
        **second,
        "messages": [*second["messages"], assistant(tool_use("x2")), user(result("x2"))],
    }
    for target in (Target(), KIMI):
        bodies = [rendered(request, target=target).body for request in (first, second, third)]
        for shorter, longer in itertools.pairwise(bodies):
            end = shorter.index(b'],"tools"')
            assert longer[:end] == shorter[:end]
            assert shorter[end:] in longer


# Calls and results


def test_parallel_calls_and_their_results_in_any_order():
    history = [
        user("hi"),
        assistant(text("Ok."), tool_use("a", x=1), tool_use("b", x=2)),
        user(result("b", "B"), result("a", "A")),
    ]
    output = to_openai(body(messages=history))["messages"][1:]
    assert output[0] == {
        "role": "assistant",
        "content": "Ok.",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
            {"id": "b", "type": "function", "function": {"name": "f", "arguments": '{"x": 2}'}},
        ],
    }
    assert output[1:] == [
        {"role": "tool", "tool_call_id": "a", "content": "A"},
        {"role": "tool", "tool_call_id": "b", "content": "B"},
    ]


def test_p11_text_beside_a_result_or_between_call_and_result_follows_the_result():
    history = [
        user("hi"),
        assistant(tool_use("a")),
        user("[Request interrupted]"),
        user(text("before"), result("a"), text("after")),
    ]
    output = to_openai(body(messages=history))["messages"]
    assert [message["role"] for message in output] == ["user", "assistant", "tool", "user", "user"]
    assert [m["content"] for m in output[3:]] == ["[Request interrupted]", "before\n\nafter"]
    assert NoticeCode.MESSAGE_MOVED in codes(body(messages=history))


def test_p11_a_call_without_a_result_gets_an_interrupted_result():
    history = [
        user("hi"),
        assistant(tool_use("a"), tool_use("b")),
        user(result("b")),
        assistant(text("x")),
    ]
    output = to_openai(body(messages=history))["messages"]
    assert output[2] == {"role": "tool", "tool_call_id": "a", "content": f"Error: {INTERRUPTED}"}
    assert NoticeCode.CALL_RESULT_SYNTHESIZED in codes(body(messages=history))


def test_p11_a_result_for_an_unknown_call_is_refused_with_its_id():
    with pytest.raises(ClientError, match=r"messages\.1.*unknown tool call id 'zz'") as refused:
        rendered(body(messages=[user("hi"), user(result("zz"))]))
    assert refused.value.status == 400


def test_p11_to_anthropic_results_come_first():
    history = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f"}}]},
        {"role": "user", "content": "wait"},
        {"role": "tool", "tool_call_id": "a", "content": "done"},
    ]
    output = to_anthropic({"model": "m", "messages": history})["messages"]
    assert [message["role"] for message in output] == ["user", "assistant", "user"]
    assert [block["type"] for block in output[2]["content"]] == ["tool_result", "text"]


def test_an_id_used_twice_in_the_history_is_matched_turn_by_turn():
    history = [
        user("hi"),
        assistant(tool_use("a")),
        user(result("a", "1")),
        assistant(tool_use("a")),
        user(result("a", "2")),
    ]
    output = to_openai(body(messages=history))["messages"]
    assert [m["content"] for m in output if m["role"] == "tool"] == ["1", "2"]


@pytest.mark.parametrize("content", [None, "", [], [text("")]])
def test_p20_a_tool_message_always_has_a_string(content):
    history = [user("hi"), assistant(tool_use("a")), user(result("a", content))]
    assert to_openai(body(messages=history))["messages"][2]["content"] == ""


def test_an_unknown_block_in_a_result_still_gives_one_tool_message():
    history = [user("hi"), assistant(tool_use("a")), user(result("a", [{"type": "hologram"}]))]
    output = to_openai(body(messages=history))["messages"]
    assert [message["role"] for message in output] == ["user", "assistant", "tool"]
    assert "hologram" in output[2]["content"]


def test_p13_kimi_ids_are_counted_over_the_whole_conversation():
    history = [
        user("hi"),
        assistant(tool_use("toolu_1", "f"), tool_use("toolu_2", "g")),
        user(result("toolu_2"), result("toolu_1")),
        assistant(tool_use("other", "f")),
        user(result("other")),
    ]
    output = to_openai(body(messages=history), KIMI)["messages"]
    ids = [call["id"] for message in output for call in message.get("tool_calls", ())]
    assert ids == ["functions.f:0", "functions.g:1", "functions.f:2"]
    assert [m["tool_call_id"] for m in output if m["role"] == "tool"] == ids


def test_mistral_ids_are_nine_digits_counted_over_the_whole_conversation():
    """Mistral's API and templates reject an id that is not nine letters and digits."""
    history = [
        user("hi"),
        assistant(tool_use("toolu_1", "f"), tool_use("toolu_2", "g")),
        user(result("toolu_2"), result("toolu_1")),
        assistant(tool_use("a1B2c3D4e", "f")),
        user(result("a1B2c3D4e")),
    ]
    output = to_openai(body(messages=history), Target(native_ids="mistral"))["messages"]
    ids = [call["id"] for message in output for call in message.get("tool_calls", ())]
    assert ids == ["000000000", "000000001", "000000002"]
    assert [m["tool_call_id"] for m in output if m["role"] == "tool"] == ids


@pytest.mark.parametrize(
    ("call_id", "sent"), [("a1B2c3D4e", "a1B2c3D4e"), ("call_a1B2", "000000000"), ("", None)]
)
def test_an_openai_clients_ids_change_for_mistral_only_if_it_would_refuse_them(call_id, sent):
    history = [{"role": "user", "content": "x"}]
    if call_id:
        calls = [{"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]
        history += [
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "tool_call_id": call_id, "content": "done"},
        ]
    request = {"model": "m", "messages": history}
    target = Target(native_ids="mistral")
    output = json.loads(rendered(request, client="openai", target=target).body)["messages"]
    if sent is None or sent == call_id:
        assert output == history
    else:
        assert output[1]["tool_calls"][0]["id"] == output[2]["tool_call_id"] == sent


def test_to_anthropic_ids_are_made_safe():
    calls = [{"id": "functions.f:0", "function": {"name": "f", "arguments": "{}"}}]
    history = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "functions.f:0", "content": "done"},
    ]
    output = to_anthropic({"model": "m", "messages": history})["messages"]
    call_id = output[1]["content"][0]["id"]
    assert set(call_id) <= set("abcdefghijklmnopqrstuvwxyz0123456789_")
    assert output[2]["content"][0]["tool_use_id"] == call_id


def test_p9_arguments_in_the_history_that_are_not_json_are_wrapped():
    calls = [{"id": "a", "function": {"name": "f", "arguments": '{"x": '}}]
    history = [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": calls}]
    output = to_anthropic({"model": "m", "messages": history})["messages"]
    assert output[1]["content"][0]["input"] == {"unparsed_arguments": '{"x":'}


def test_an_error_result_is_marked_as_an_error():
    history = [user("hi"), assistant(tool_use("a")), user(result("a", "no file", is_error=True))]
    assert to_openai(body(messages=history))["messages"][2]["content"] == "Error: no file"


# Images and documents


def test_p15_images_in_a_result_follow_all_tool_messages_of_the_turn():
    history = [
        user("hi"),
        assistant(tool_use("a"), tool_use("b")),
        user(result("a", [text("one"), PNG]), result("b", "two"), text("see")),
    ]
    output = to_openai(body(messages=history))["messages"]
    assert [m["role"] for m in output] == ["user", "assistant", "tool", "tool", "user", "user"]
    assert output[2]["content"].startswith("one")
    assert "AAAA" not in output[2]["content"]
    assert output[4]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    ]
    assert output[5]["content"] == "see"


def test_p15_documents_become_files_text_or_a_marker():
    plain = {"type": "document", "source": {"type": "text", "data": "words"}, "title": "t"}
    output = to_openai(body(messages=[user(PDF, plain)]))["messages"][0]["content"]
    file = {"filename": "document.pdf", "file_data": "data:application/pdf;base64,BBBB"}
    assert output == [{"type": "file", "file": file}, {"type": "text", "text": "words"}]
    blind = Target(files=False, images=False)
    marked = to_openai(body(messages=[user(PDF, PNG)]), blind)["messages"][0]["content"]
    assert "document omitted" in marked
    assert "image omitted" in marked
    assert "BBBB" not in marked
    assert NoticeCode.CONTENT_UNSUPPORTED in codes(body(messages=[user(PDF)]), target=blind)


def test_images_reach_anthropic():
    parts = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/x.png"}},
    ]
    request = {"model": "m", "messages": [{"role": "user", "content": parts}]}
    output = to_anthropic(request)["messages"][0]["content"]
    assert output[0] == PNG
    assert output[1]["source"] == {"type": "url", "url": "https://example.com/x.png"}


# Reasoning

GENUINE = "g" * 400


def thinking(signature, value="Hm."):
    return {"type": "thinking", "thinking": value, "signature": signature}


def test_p3_reasoning_is_replayed_only_if_the_target_wants_it():
    history = [user("hi"), assistant(thinking(""), tool_use("a")), user(result("a"))]
    output = to_openai(body(messages=history), KIMI)["messages"][1]
    assert output["reasoning_content"] == "Hm."
    assert "reasoning_content" not in to_openai(body(messages=history))["messages"][1]


def test_p3_a_call_without_reasoning_gets_a_placeholder():
    history = [user("hi"), assistant(tool_use("a")), user(result("a")), assistant(text("x"))]
    output = to_openai(body(messages=history), KIMI)["messages"]
    assert output[1]["reasoning_content"].strip()
    assert "reasoning_content" not in output[3]
    assert NoticeCode.REASONING_PLACEHOLDER in codes(body(messages=history), target=KIMI)


@pytest.mark.parametrize("signature", ["", None, "x" * 24])
def test_p5_unsigned_reasoning_never_reaches_anthropic(signature):
    history = [user("hi"), assistant(thinking(signature), text("x")), user("go")]
    output = json.loads(rendered(body(messages=history), upstream="anthropic").body)
    assert output["messages"][1]["content"] == [text("x")]


def test_p5_genuine_reasoning_reaches_anthropic_byte_for_byte():
    block = '{"signature":"' + GENUINE + '" , "type":"thinking","thinking":"H\\u006d."}'
    raw = '{"model":"m","messages":[{"role":"assistant","content":[' + block + "]}]}"
    conversation = DIALECTS["anthropic"].parse(raw.encode())
    assert block.encode() in DIALECTS["anthropic"].render(conversation, Target()).body


def test_p5_a_message_of_only_unsigned_reasoning_is_dropped():
    history = [user("hi"), assistant(thinking("")), user("go")]
    output = json.loads(rendered(body(messages=history), upstream="anthropic").body)
    assert [message["role"] for message in output["messages"]] == ["user", "user"]
    assert len(to_openai(body(messages=history))["messages"]) == 2


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"thinking": {"type": "adaptive"}}, {"enabled": True}),
        ({"thinking": {"type": "enabled", "budget_tokens": 99}}, {"max_tokens": 99}),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
            {"effort": "high"},
        ),
        ({"thinking": {"type": "disabled"}}, {"enabled": False}),
        (
            {"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}},
            {"enabled": False},
        ),
    ],
)
def test_thinking_is_requested_in_the_form_of_the_upstream(given, asked):
    target = Target(reasoning_request="openrouter")
    assert to_openai(body(**given), target)["reasoning"] == asked
    assert "reasoning" not in to_openai(body(**given))


@pytest.mark.parametrize("thinking", [{}, {"thinking": None}, {"thinking": {"type": "disabled"}}])
@pytest.mark.parametrize("form", ["openrouter", "effort", None])
def test_an_effort_alone_does_not_switch_thinking_on(thinking, form):
    """Fault C6: Claude Code sends the effort with thinking switched off, too."""
    target = Target(reasoning_request=form)
    request = body(**thinking, output_config={"effort": "high"})
    output = to_openai(request, target)
    assert output.get("reasoning", {"enabled": False}) == {"enabled": False}
    assert "reasoning_effort" not in output
    if not thinking.get("thinking"):
        assert "output_config.effort" in details(request, target=target)


@pytest.mark.parametrize(
    ("budget", "effort"),
    [(1024, "low"), (4096, "low"), (4097, "medium"), (16_384, "medium"), (16_385, "high")],
)
def test_a_budget_becomes_an_effort_for_upstreams_that_take_one(budget, effort):
    """Fault T11."""
    target = Target(reasoning_request="effort")
    thinking = {"type": "enabled", "budget_tokens": budget}
    assert to_openai(body(thinking=thinking), target)["reasoning_effort"] == effort
    both = body(thinking=thinking, output_config={"effort": "max"})
    assert to_openai(both, target)["reasoning_effort"] == "max", "an effort is more exact"
    off = body(thinking=thinking | {"type": "disabled"})
    assert "reasoning_effort" not in to_openai(off, target)


# Tools


@pytest.mark.parametrize(
    ("choice", "output"),
    [
        ({"type": "auto"}, {}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        ({"type": "tool", "name": "f"},
         {"tool_choice": {"type": "function", "function": {"name": "f"}}}),
        ({"type": "auto", "disable_parallel_tool_use": True}, {"parallel_tool_calls": False}),
    ],
)  # fmt: skip
def test_tool_choice_is_translated_between_dialects(choice, output):
    got = to_openai(body(tools=[tool()], tool_choice=choice))
    assert {key: got[key] for key in ("tool_choice", "parallel_tool_calls") if key in got} == output
    back = DIALECTS["openai"].parse(json.dumps(got).encode())
    assert (
        back.tool_choice
        == DIALECTS["anthropic"]
        .parse(json.dumps(body(tools=[tool()], tool_choice=choice)).encode())
        .tool_choice
    )


def test_a_tool_becomes_a_function_with_an_unchanged_schema():
    raw = (
        b'{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"name":"f",'
        b'"input_schema":{"type":"object",  "minimum": 1.50,"properties":{}}}]}'
    )
    output = DIALECTS["openai"].render(DIALECTS["anthropic"].parse(raw), Target()).body
    assert b'"parameters":{"type":"object",  "minimum": 1.50,"properties":{}}' in output


def test_an_empty_list_of_tools_is_not_forwarded():
    assert not {"tools", "tool_choice"} & to_openai(body(tools=[])).keys()
    request = body(tools=[], tool_choice="none", parallel_tool_calls=False, seed=1)
    same = json.loads(rendered(request, client="openai").body)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & same.keys()
    assert same["seed"] == 1


@pytest.mark.parametrize("system", ["", " ", [text("")], None])
def test_an_empty_system_prompt_is_not_forwarded(system):
    for upstream in DIALECTS:
        output = json.loads(rendered(body(system=system), upstream=upstream).body)
        assert "system" not in output
        assert [message["role"] for message in output["messages"]] == ["user"]


def test_server_tools_are_dropped_with_a_notice():
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    request = body(tools=[tool(), search])
    assert [t["function"]["name"] for t in to_openai(request)["tools"]] == ["f"]
    assert NoticeCode.SERVER_TOOL_DROPPED in codes(request)


SERVER_TOOLS: dict[tuple[str, str], list[dict[str, object]]] = {
    ("anthropic", "openai"): [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
        {"type": "web_fetch_20250910", "name": "web_fetch"},
        {"type": "code_execution_20250825", "name": "code_execution"},
        {"type": "next_year_20270101", "name": "next_year"},
    ],
    ("openai", "anthropic"): [{"type": "web_search", "name": "web_search"}],
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("client", "upstream", "server_tool"),
    [(*dialects, tool) for dialects, tools in SERVER_TOOLS.items() for tool in tools],
)
def test_server_tools_without_other_tools_are_refused(client, upstream, server_tool, stream):
    """C3: a model without the tool would answer from memory, as if the tool had run."""
    request = body(tools=[server_tool], stream=stream)
    with pytest.raises(ClientError, match=f"{server_tool['name']} is not available") as caught:
        rendered(request, client=client, upstream=upstream)
    assert caught.value.path == "tools"
    # Without a choice of tools nothing is lost, and the client's own vendor runs the tool.
    choice = "none" if client == "openai" else {"type": "none"}
    rendered(body(**request, tool_choice=choice), client=client, upstream=upstream)
    same = json.loads(rendered(request, client=client, upstream=client).body)
    assert same["tools"] == [server_tool]


@pytest.mark.parametrize("options", [{}, {"search_context_size": "low"}])
def test_a_search_that_another_dialect_cannot_express_is_refused(options):
    """C3: `web_search_options` of Chat Completions is a server tool, too."""
    request = body(web_search_options=options, tools=[])
    with pytest.raises(ClientError, match="web_search is not available"):
        rendered(request, client="openai", upstream="anthropic")
    for target in (Target(), Target(native_ids="kimi")):
        same = json.loads(rendered(request, client="openai", target=target).body)
        assert same["web_search_options"] == options
        assert "tools" not in same
    assert "tools" in json.loads(
        rendered(
            body(
                web_search_options=options, tools=[{"type": "function", "function": {"name": "f"}}]
            ),
            client="openai",
            upstream="anthropic",
        ).body
    )


@pytest.mark.parametrize("choice", [{"type": "tool", "name": "web_search"}, {"type": "any"}])
def test_a_forced_server_tool_is_refused(choice):
    search = {"type": "web_search_20250305", "name": "web_search"}
    with pytest.raises(ClientError, match="tool_choice"):
        rendered(body(tools=[search], tool_choice=choice))


def test_tool_references_become_text_and_the_search_tool_is_dropped():
    tools = [tool("Found", defer_loading=True), tool("DeferredToolPlaceholder")]
    history = [
        user("hi"),
        assistant(tool_use("a", "ToolSearch")),
        user(result("a", [{"type": "tool_reference", "tool_name": "Found"}])),
    ]
    output = to_openai(body(tools=tools, messages=history))
    assert [t["function"]["name"] for t in output["tools"]] == ["Found"]
    content = output["messages"][2]["content"]
    assert "Found" in content
    assert json.dumps(SCHEMA) in content


def test_p20_long_names_are_shortened_reversibly_everywhere():
    long, other = "mcp__server__" + "x" * 80, "mcp__server__" + "x" * 80 + "y"
    request = body(
        tools=[tool(long), tool(other), tool("f")],
        tool_choice={"type": "tool", "name": long},
        messages=[user("hi"), assistant(tool_use("a", long)), user(result("a"))],
    )
    output = rendered(request)
    names = [t["function"]["name"] for t in json.loads(output.body)["tools"]]
    assert len(set(names)) == 3
    assert max(map(len, names)) == 64
    assert [output.aliases.get(name, name) for name in names] == [long, other, "f"]
    assert json.loads(output.body)["tool_choice"]["function"]["name"] == names[0]
    call = json.loads(output.body)["messages"][1]["tool_calls"][0]
    assert call["function"]["name"] == names[0]


def test_p20_values_above_the_targets_limits_are_clamped_or_refused():
    output = to_openai(body(max_tokens=64_000), Target(max_tokens=8192))
    assert output["max_tokens"] == 8192
    assert NoticeCode.LIMIT_CLAMPED in codes(body(max_tokens=64_000), target=Target(max_tokens=1))
    with pytest.raises(ClientError, match="tools: 2 tools > 1 maximum"):
        rendered(body(tools=[tool("a"), tool("b")]), target=Target(max_tools=1))


# Everything else


def test_sampling_and_stream_reach_the_upstream():
    output = to_openai(
        body(
            temperature=0.5,
            top_p=0.9,
            top_k=40,
            stop_sequences=["END"],
            metadata={"user_id": "u"},
            stream=True,
        )
    )
    assert output["temperature"] == 0.5
    assert output["top_p"] == 0.9
    assert output["top_k"] == 40
    assert output["stop"] == ["END"]
    assert output["user"] == "u"
    assert output["max_tokens"] == 9
    assert output["stream"] is True
    assert output["stream_options"] == {"include_usage": True}


def test_a_long_user_id_is_hashed_for_openai():
    long_id = '{"device_id":"%s","account_uuid":"","session_id":"s"}' % ("0" * 64)
    output = [
        to_openai(body(metadata={"user_id": user_id})) for user_id in (long_id, long_id, "u" * 65)
    ]
    assert output[0]["user"] == output[1]["user"] != output[2]["user"]
    assert len(output[0]["user"]) == 64
    assert "0" * 9 not in output[0]["user"]
    assert to_openai(body(metadata={"user_id": "u" * 64}))["user"] == "u" * 64


def test_an_openai_request_reaches_anthropic_complete():
    output = to_anthropic({
        "model": "m",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}],
        "max_completion_tokens": 99, "temperature": 1.7, "stop": "END", "user": "u",
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
        "tool_choice": "required", "parallel_tool_calls": False,
    })  # fmt: skip
    assert output == {
        "model": "m",
        "max_tokens": 99,
        "system": [text("Be kind.")],
        "messages": [{"role": "user", "content": [text("hi")]}],
        "tools": [{"name": "f", "input_schema": SCHEMA}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "temperature": 1.0,
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u"},
        "stream": True,
    }


def test_p4_unknown_fields_are_forwarded_within_a_dialect_and_reported_otherwise():
    request = body(
        context_management={"edits": []},
        safeguards=[],
        tools=[tool(input_examples=[1])],
        messages=[user(text("x", sparkle=1))],
    )
    same = json.loads(rendered(request, upstream="anthropic").body)
    assert same == {**request, "stream": True}
    named = details(request)
    assert {
        "context_management",
        "safeguards",
        "tools[].input_examples",
        "content[].sparkle",
    } <= named
    assert not {"context_management", "safeguards"} & to_openai(request).keys()
    openai = {"model": "m", "messages": [{"role": "user", "content": "x"}], "logit_bias": {"1": 2}}
    assert json.loads(rendered(openai, client="openai").body)["logit_bias"] == {"1": 2}
    assert "logit_bias" in details(openai, client="openai", upstream="anthropic")


def test_p12_blank_text_is_dropped():
    history = [user(text(""), text("hi")), assistant(text(""), tool_use("a")), user(result("a"))]
    output = to_openai(body(messages=history))["messages"]
    assert [message["content"] for message in output] == ["hi", "", "done"]
    kept = json.loads(rendered(body(messages=history), upstream="anthropic").body)["messages"]
    assert [block["type"] for message in kept for block in message["content"]] == [
        "text", "tool_use", "tool_result",
    ]  # fmt: skip


def test_the_upstreams_name_for_the_model_replaces_the_clients():
    for upstream in DIALECTS:
        output = rendered(body(), upstream=upstream, target=Target(model="other"))
        assert json.loads(output.body)["model"] == "other"


def test_an_output_schema_is_translated():
    request = body(output_config={"format": {"type": "json_schema", "schema": SCHEMA}})
    output = to_openai(request)
    assert output["response_format"]["json_schema"]["schema"] == SCHEMA
    assert to_anthropic(output)["output_config"]["format"]["schema"] == SCHEMA


def test_the_older_field_of_an_output_schema_is_translated_the_same_way():
    """Fault C2: LiteLLM sends the beta's `output_format`."""
    format_ = {"type": "json_schema", "schema": SCHEMA}
    expected = rendered(body(output_config={"format": format_}))
    assert rendered(body(output_format=format_)) == expected
    assert (
        rendered(body(output_format={"type": "text"}, output_config={"format": format_}))
        == expected
    )
    assert "response_format" not in to_openai(body(output_format=None))
    with pytest.raises(ClientError, match=r"^output_format\.schema: must be an object"):
        rendered(body(output_format={"type": "json_schema", "schema": "x"}))
    same = rendered(body(output_format=format_), upstream="anthropic")
    assert json.loads(same.body)["output_format"] == format_


MALFORMED = {
    "messages": {"model": "m", "messages": []},
    "messages: is required": {"model": "m"},
    "model: is required": {"messages": [{"role": "user", "content": "x"}]},
    "messages.0.content": body(messages=[{"role": "user", "content": 5}]),
    "messages.0.content.1.text": body(messages=[user(text("a"), {"type": "text", "text": 5})]),
    "messages.0.content.0.text": body(messages=[user({"type": "text"})]),
    "messages.1.role": body(messages=[user("x"), {"role": "robot", "content": "x"}]),
    "messages.0.content.0.id": body(messages=[assistant({"type": "tool_use", "name": "f"})]),
    "messages.0.content.0.input": body(messages=[assistant(tool_use("a") | {"input": [1]})]),
    "messages.0.content.0.tool_use_id": body(messages=[user({"type": "tool_result"})]),
    "messages.0.content.0": body(messages=[user(tool_use("a"))]),
    "messages.0.content.0.source": body(messages=[user({"type": "image"})]),
    "tools.0.name": body(tools=[{"input_schema": SCHEMA}]),
    "tools.1.name": body(tools=[tool(), tool("")]),
    "tools.0.input_schema": body(tools=[{"name": "f", "input_schema": "x"}]),
    "tools.1.input_schema": body(tools=[tool(), {"name": "g"}]),
    "tool_choice.type": body(tool_choice={"type": "sometimes"}),
    "tool_choice.name": body(tools=[tool()], tool_choice={"type": "tool", "name": "g"}),
    "max_tokens": body(max_tokens="many"),
    "stop_sequences.0": body(stop_sequences=[5]),
}


@pytest.mark.parametrize(("path", "request_body"), MALFORMED.items())
def test_a_malformed_request_is_refused_with_the_path_of_the_error(path, request_body):
    with pytest.raises(ClientError) as refused:
        rendered(request_body)
    assert path in str(refused.value)
    assert refused.value.status == 400
    assert refused.value.kind == "invalid_request_error"


@pytest.mark.parametrize(
    "raw", [b"", b"nope", b"[]", b'"x"', b"{", b'{"model":"\xff"}', b"[" * 9999]
)
@pytest.mark.parametrize("client", DIALECTS)
def test_a_body_that_is_not_a_json_object_is_refused(client, raw):
    with pytest.raises(ClientError):
        DIALECTS[client].parse(raw)


@pytest.mark.parametrize(
    ("path", "request_body"),
    {
        "messages": {"model": "m", "messages": []},
        "messages.0.role": {"model": "m", "messages": [{"role": "robot"}]},
        "messages.0.tool_call_id": {"model": "m", "messages": [{"role": "tool", "content": "x"}]},
        "messages.0.tool_calls.0.id": {
            "model": "m",
            "messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}],
        },
        "tools.0.function.name": {"model": "m", "messages": [{"role": "user", "content": "x"}],
                                  "tools": [{"type": "function", "function": {}}]},
        "tools.0.function.parameters": {
            "model": "m",
            "messages": [{"role": "user", "content": "x"}],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": []}}],
        },
        "tool_choice": {"model": "m", "messages": [{"role": "user", "content": "x"}],
                        "tool_choice": "sometimes"},
    }.items(),
)  # fmt: skip
def test_a_malformed_openai_request_is_refused_with_the_path_of_the_error(path, request_body):
    with pytest.raises(ClientError, match=path.replace(".", r"\.")):
        rendered(request_body, client="openai")


def test_a_thread_is_refused_with_the_code_that_makes_the_sdk_send_the_history():
    with pytest.raises(ClientError) as refused:
        rendered(body(thread={"type": "create"}))
    assert refused.value.details == {
        "error_code": "thread_unsupported_request",
        "unsupported": ["thread"],
    }


def test_a_conversation_survives_the_round_trip_through_openai():
    history = [
        user("hi"),
        assistant(text("Ok."), tool_use("a", x=1), tool_use("b")),
        user(result("a", "A"), result("b", "B"), text("go on")),
    ]
    request = body(system="Be kind.", tools=[tool()], messages=history, temperature=0.5)
    there = to_openai(request)
    back = to_anthropic(there)
    assert back["system"] == [text("Be kind.")]
    assert back["tools"] == request["tools"]
    assert back["messages"][1]["content"] == history[1]["content"]
    assert back["messages"][2]["content"] == [
        result("a", [text("A")]), result("b", [text("B")]), text("go on"),
    ]  # fmt: skip
    assert json.loads(rendered(there, client="openai").body) == there


# Defects found by adversarial testing


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize(
    "place",
    [
        b'"messages":[{"role":"user","content":"x","\xff":1}]',
        b'"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","\xff":1}]',
        b'"messages":[{"role":"user","content":"x"}],"extra":"\xff"',
    ],
)
def test_invalid_utf8_is_refused_anywhere_in_a_request(client, place):
    with pytest.raises(ClientError, match="UTF-8"):
        DIALECTS[client].parse(b'{"model":"m",' + place + b"}")


@pytest.mark.parametrize(
    "block",
    [
        {"type": "hologram", "text": {"a": 1}, "id": 5, "source": "x"},
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
        {"type": "search_result", "source": "https://a", "title": "t", "content": [text("found")]},
        {"type": "tool_addition", "name": {"a": 1}},
    ],
    ids=lambda block: block["type"],
)
def test_p4_blocks_that_only_anthropic_supports_never_fail_a_request(block):
    history = [user(text("hi"), block), assistant(tool_use("a")), user(result("a", [block]))]
    request = body(messages=history, system=[text("Be kind."), {"type": "hologram"}])
    roles = [message["role"] for message in to_openai(request)["messages"]]
    assert roles[:4] == ["system", "user", "assistant", "tool"]
    same = json.loads(rendered(request, upstream="anthropic").body)
    assert same["messages"] == history


def test_null_fields_of_other_blocks_are_accepted():
    history = [user("hi"), assistant(tool_use("a") | {"text": None, "signature": None})]
    for upstream in DIALECTS:
        rendered(body(messages=history), upstream=upstream)


def test_p5_reasoning_encrypted_by_another_vendor_never_reaches_anthropic():
    message = {
        "role": "assistant",
        "content": "x",
        "reasoning_details": [
            {"type": "reasoning.encrypted", "data": "gAAAA", "format": "openai-responses-v1"},
            {
                "type": "reasoning.text",
                "text": "Hm.",
                "signature": GENUINE,
                "format": "google-gemini-v1",
            },
        ],
    }
    request = {"model": "m", "messages": [{"role": "user", "content": "hi"}, message]}
    assert to_anthropic(request)["messages"][1]["content"] == [text("x")]


def test_p5_a_signature_survives_an_openai_client():
    sealed = {
        "type": "reasoning.text",
        "text": "Hm.",
        "signature": GENUINE,
        "format": "anthropic-claude-v1",
    }
    message = {
        "role": "assistant",
        "content": "x",
        "reasoning_content": "Hm.",
        "reasoning_details": [sealed],
    }
    request = {"model": "m", "messages": [{"role": "user", "content": "hi"}, message]}
    assert to_anthropic(request)["messages"][1]["content"][0] == thinking(GENUINE)
    replayed = rendered(request, client="openai", target=Target(reasoning_field="reasoning")).body
    assert json.loads(replayed)["messages"][1]["reasoning_details"] == [sealed]


def test_an_openai_request_without_changes_passes_unchanged():
    request = {
        "model": "m",
        "messages": [{"role": "user", "name": "ann", "content": [
            {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA"}},
        ]}],
        "max_completion_tokens": 5,
        "response_format": {"type": "json_object"},
        "functions": [{"name": "f"}], "function_call": {"name": "f"},
        "reasoning": {"max_tokens": 9},
    }  # fmt: skip
    output = json.loads(rendered(request, client="openai").body)
    assert output == {**request, "stream": True, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (
            "JVBERi0xLjQ=",
            {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQ="},
        ),
        ("https://example.com/a.pdf", {"type": "url", "url": "https://example.com/a.pdf"}),
        ("data:text/plain;base64,aGk=", {"type": "text", "media_type": "text/plain", "data": "hi"}),
    ],
)
def test_p15_every_form_of_a_file_reaches_anthropic(data, part):
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": data}}
    request = {"model": "m", "messages": [{"role": "user", "content": [file]}]}
    assert to_anthropic(request)["messages"][0]["content"][0]["source"] == part


def test_p20_the_target_limits_an_anthropic_upstream_too():
    output = rendered(body(max_tokens=64_000), upstream="anthropic", target=Target(max_tokens=8192))
    assert json.loads(output.body)["max_tokens"] == 8192
    openai = {"model": "m", "max_tokens": 64_000, "messages": [{"role": "user", "content": "x"}]}
    assert to_anthropic(openai, Target(max_tokens=8192))["max_tokens"] == 8192


def test_p13_kimi_ids_carry_the_name_that_the_upstream_knows():
    long = "x" * 80
    history = [user("hi"), assistant(tool_use("a", long)), user(result("a"))]
    call = to_openai(body(messages=history, tools=[tool(long)]), KIMI)["messages"][1]["tool_calls"][
        0
    ]
    assert call["id"] == f"functions.{call['function']['name']}:0"


def test_p12_blank_text_is_dropped_from_results_and_system_prompts():
    history = [
        user("hi"),
        assistant(text(" "), tool_use("a")),
        user(result("a", [text("")])),
        {"role": "assistant", "content": "  "},
        user("go"),
    ]
    request = body(messages=history, system=[text(""), text("Be kind.")])
    output = json.loads(rendered(request, upstream="anthropic").body)
    assert output["system"] == [text("Be kind.")]
    assert [m["role"] for m in output["messages"]] == ["user", "assistant", "user", "user"]
    assert output["messages"][2]["content"][0]["content"] == []
    assert to_openai(request)["messages"][2]["content"] == ""


@pytest.mark.parametrize("upstream", DIALECTS)
def test_a_request_without_content_is_refused(upstream):
    with pytest.raises(ClientError, match="messages"):
        rendered(body(messages=[user(text(" "))]), upstream=upstream)
    with pytest.raises(ClientError, match="messages"):
        rendered(
            {"model": "m", "messages": [{"role": "system", "content": "x"}]},
            client="openai",
            upstream="anthropic",
        )


def test_to_anthropic_every_id_is_used_once_and_every_schema_has_a_type():
    call = {"role": "assistant", "function_call": {"name": "f", "arguments": "null"}}
    done = {"role": "function", "name": "f", "content": "done"}
    request = {
        "model": "m",
        "functions": [{"name": "f", "parameters": {}}],
        "messages": [{"role": "user", "content": "x"}, call, done, call, done],
    }
    output = to_anthropic(request)
    ids = [b["id"] for m in output["messages"] for b in m["content"] if b["type"] == "tool_use"]
    results = [
        b["tool_use_id"]
        for m in output["messages"]
        for b in m["content"]
        if b["type"] == "tool_result"
    ]
    assert ids == results == ["f", "f_2"]
    assert output["messages"][1]["content"][0]["input"] == {}
    assert output["tools"][0]["input_schema"]["type"] == "object"


def test_to_anthropic_a_budget_stays_below_max_tokens():
    request = {
        "model": "m",
        "max_tokens": 2000,
        "reasoning": {"max_tokens": 9000},
        "messages": [{"role": "user", "content": "x"}],
    }
    assert to_anthropic(request)["thinking"] == {"type": "enabled", "budget_tokens": 1999}
    assert "thinking" not in to_anthropic(request | {"max_tokens": 500})
    assert to_anthropic(request | {"reasoning": {"effort": "minimal"}})["output_config"] == {
        "effort": "low"
    }


def test_everything_dropped_has_a_notice():
    history = [user("hi"), assistant(thinking(GENUINE), text("x")), user("go")]
    request = body(
        messages=history, system=[text("x", cache_control={})], thinking={"type": "adaptive"}
    )
    assert {"content[].cache_control", "thinking"} <= details(request)
    assert NoticeCode.REASONING_DROPPED in codes(request)
    broken = {"id": "a", "function": {"name": "f", "arguments": "{"}}
    openai = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [broken]},
        ],
    }
    assert NoticeCode.HISTORY_SANITISED in codes(openai, client="openai", upstream="anthropic")
    assert NoticeCode.HISTORY_SANITISED in codes(openai, client="openai")


def test_another_upstream_of_the_anthropic_dialect_gets_reasoning_but_no_billing_line():
    line = "x-anthropic-billing-header: cc"
    history = [user("hi"), assistant(thinking(""), tool_use("a")), user(result("a"))]
    request = body(messages=history, system=[text(line), text("Be kind.")])
    output = json.loads(
        rendered(request, upstream="anthropic", target=Target(is_anthropic=False)).body
    )
    assert output["messages"][1]["content"][0] == thinking("")
    assert output["system"] == [text("Be kind.")]


def test_p16_turns_to_anthropic_share_their_prefix_byte_for_byte():
    first = body(messages=[user("hi")])
    second = body(messages=[user("hi"), assistant(thinking(""), text("x")), user("go")])
    bodies = []
    for request in (first, second):
        spaced = json.dumps(request, separators=(" , ", " : ")).encode()
        bodies.append(
            DIALECTS["anthropic"].render(DIALECTS["anthropic"].parse(spaced), Target()).body
        )
    end = bodies[0].index(b"]", bodies[0].index(b'"messages"'))
    assert bodies[1][:end] == bodies[0][:end]
