"""Requirements of real clients, measured with Claude Code and the vendors' SDKs.

Each test covers a way in which a real session broke: requests must be accepted, answers must be
readable for the client, and errors must make it react correctly.
"""

import http.client
import json
import time
from itertools import pairwise

import httpx
import pytest

from tests.support.chat import TOOLS, ask, chunk, data, error_of, read, reply, says, stream
from tests.support.client_views import payloads
from tests.support.gateway import KEY
from tests.support.scripted_upstream import Close, Pause, Reset, whole

BETAS = "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,mid-conversation-tool-changes-2026-07-01,thinking-token-count-2026-05-13,advanced-tool-use-2025-11-20,effort-2025-11-24"
CLAUDE_CODE = {
    "accept": "application/json",
    "accept-encoding": "gzip, deflate, br, zstd",
    "user-agent": "claude-cli/2.1.325 (external, sdk-cli)",
    "x-claude-code-session-id": "5a0c0b0e-0000-4000-8000-000000000000",
    "x-stainless-lang": "js",
    "x-stainless-retry-count": "0",
    "x-stainless-timeout": "600",
    "anthropic-beta": BETAS,
    "anthropic-dangerous-direct-browser-access": "true",
    "anthropic-version": "2023-06-01",
    "x-app": "cli",
}
EPHEMERAL = {"type": "ephemeral"}
PLACEHOLDER = {"name": "DeferredToolPlaceholder", "description": "", "input_schema": {}}
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
HARBOR = '{"harbor":"Moss"}'


def text(value, **fields):
    return {"type": "text", "text": value, **fields}


def user(*content):
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else [*content]}


def assistant(*content):
    return {"role": "assistant", "content": [*content]}


def system(content, **fields):
    return {"role": "system", "content": content, **fields}


def use(call_id, **given):
    return {"type": "tool_use", "id": call_id, "name": "get_tide", "input": given}


def result(call_id, content="low", **fields):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def entry(arguments=HARBOR, *, index=0, call_id="call_1", name="get_tide"):
    """One structured call in a delta of the upstream."""
    function = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
    return {"index": index, "id": call_id, "type": "function", "function": function}


def calls(*entries, finish="tool_calls"):
    """A complete answer of the upstream with these structured calls."""
    return reply(stream({"tool_calls": [*entries]}, finish=finish))


def send_and_read(client, model, **fields):
    """Send a request and read its stream like a client."""
    return read(client.post("/v1/messages", json=ask(model, stream=True, **fields)))


def whole_message(client, model, **fields):
    response = client.post("/v1/messages", json=ask(model, **fields))
    assert response.status_code == 200, response.text
    return response.json()


def upstream_body(client, script, **fields):
    """Send a request and return the body that the upstream got."""
    model = fields.pop("model")
    response = client.post("/v1/messages", json={**ask(model, stream=True), **fields})
    assert read(response).error is None
    return script.last.json


# Requests


CONTENTS = {"string": "Mind.", "blocks": [text("Mind.", cache_control=EPHEMERAL)], "empty": []}
PLACES = {
    "last of the first request": [user("hi"), "here"],
    "after a result": [user("hi"), assistant(use("a")), user(result("a")), "here"],
    "before the assistant": [user("hi"), "here", assistant(text("yes")), user("go")],
    "between a call and its result": [user("hi"), assistant(use("a")), "here", user(result("a"))],
    "first of all": ["here", user("hi")],
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_system_message_is_accepted_anywhere_in_the_messages(
    client, upstream, model, place, content
):
    script = upstream.script(model, says("Hi"))
    inline = system(content, output_config={"effort": "medium"})
    messages = [inline if message == "here" else message for message in place]
    got = upstream_body(client, script, model=model, messages=messages, system="Be kind.")[
        "messages"
    ]
    assert [message["role"] for message in got].index("system") == 0
    assert "system" not in [message["role"] for message in got[1:]]
    reminders = [m["content"] for m in got if m["content"].startswith("<system-reminder>")]
    assert reminders == (["<system-reminder>\nMind.\n</system-reminder>"] if content else [])
    for before, after in pairwise(got):
        assert ("tool_calls" in before) == (after["role"] == "tool")


def test_everything_that_claude_code_sends_is_accepted_the_first_time(client, upstream, model):
    """After a 400, Claude Code sends up to six variants within a second; some 400s are fatal."""
    script = upstream.script(model, says("Hi"))
    request = {
        "model": model,
        "messages": [
            user(text("<system-reminder>x</system-reminder>"), text("PROMPT")),
            system([text("# Environment", cache_control=EPHEMERAL)], output_config={"effort": "x"}),
        ],
        "system": [
            text("x-anthropic-billing-header: cc_version=2.1.325.0dc; cc_entrypoint=sdk-cli;"),
            text("You are an agent.", cache_control=EPHEMERAL),
        ],
        "tools": [*TOOLS, {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
        "metadata": {"user_id": '{"device_id":"64hex","account_uuid":"","session_id":"uuid"}'},
        "max_tokens": 32000,
        "thinking": {"type": "adaptive", "display": "omitted"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
        "stream": True,
    }
    response = client.post("/v1/messages?beta=true", json=request, headers=CLAUDE_CODE)
    assert read(response).text == "Hi"
    got = script.last.json
    assert [tool["function"]["name"] for tool in got["tools"]] == ["get_tide"]
    assert got["messages"][0] == {"role": "system", "content": "You are an agent."}
    assert "context_management" not in got
    assert "content-encoding" not in response.headers


UNKNOWN = {
    "a top-level field": {"next_year": {"a": [1]}},
    "a field of a tool": {"tools": [{**TOOLS[0], "next_year": 1, "cache_control": EPHEMERAL}]},
    "a field of a message": {"messages": [{**user("hi"), "next_year": 1}]},
    "a field of a block": {"messages": [user(text("hi", citations=[], next_year=1))]},
    "a kind of block": {"messages": [user(text("hi"), {"type": "next_year", "x": 1})]},
    "a kind of thinking": {"thinking": {"type": "next_year", "x": 1}},
    "a kind of server tool": {"tools": [*TOOLS, {"type": "next_year_20270101", "name": "x"}]},
    "null for optional fields": dict.fromkeys(
        ("system", "tools", "tool_choice", "temperature", "stop_sequences", "metadata", "thinking")
    ),
    "cache_control on a call": {
        "messages": [
            user("hi"),
            assistant({**use("a"), "cache_control": EPHEMERAL}),
            user(result("a")),
        ]
    },
}


@pytest.mark.parametrize("fields", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_input_is_ignored(client, upstream, model, fields):
    script = upstream.script(model, says("Hi"))
    assert "next_year" not in json.dumps(upstream_body(client, script, model=model, **fields))


HEADERS = {
    "unknown beta": {"anthropic-beta": "next-year-2027-01-01"},
    "empty beta": {"anthropic-beta": ""},
    "version of anthropic-py 2.8": {"anthropic-version": "2026-10-21"},
    "unknown version": {"anthropic-version": "next year"},
    "unknown header": {"x-claude-code-next-year": "1", "x-claude-code-agent-id": "a"},
}


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
def test_unknown_headers_betas_and_versions_are_ignored(client, upstream, model, headers):
    script = upstream.script(model, says("Hi"))
    response = client.post("/v1/messages", json=ask(model), headers=headers)
    assert response.status_code == 200
    assert not headers.keys() & script.last.headers.keys()


CREDENTIALS = {
    "x-api-key": {"x-api-key": KEY},
    "bearer": {"authorization": f"Bearer {KEY}"},
    "both at once": {"x-api-key": KEY, "authorization": f"Bearer {KEY}"},
    "bearer in lower case": {"authorization": f"bearer {KEY}"},
}


@pytest.mark.parametrize("headers", CREDENTIALS.values(), ids=CREDENTIALS)
def test_the_key_is_accepted_in_either_header_or_both(gateway, upstream, model, headers):
    upstream.script(model, says("Hi"))
    response = httpx.post(f"{gateway.url}/v1/messages", json=ask(model), headers=headers)
    assert response.status_code == 200


SDKS = {
    "0.125.0": ("?beta=true", {"x-api-key": KEY, "anthropic-version": "2023-06-01"}),
    "2.8.0": ("", {"authorization": f"Bearer {KEY}", "anthropic-version": "2026-10-21"}),
}


@pytest.mark.parametrize(("query", "headers"), SDKS.values(), ids=SDKS)
def test_both_generations_of_the_sdk_are_served(gateway, upstream, model, query, headers):
    upstream.script(model, says("Hi"))
    url, others = f"{gateway.url}/v1/messages{query}", {"x-stainless-helper-method": "stream"}
    response = httpx.post(url, json=ask(model, stream=True), headers=headers | others)
    assert read(response).text == "Hi"


STREAM = {"absent": {}, "false": {"stream": False}, "null": {"stream": None}}


@pytest.mark.parametrize("fields", STREAM.values(), ids=STREAM)
def test_without_stream_true_the_answer_is_one_json_document(client, upstream, model, fields):
    upstream.script(model, says("Hi"))
    response = client.post("/v1/messages", json=ask(model, **fields))
    assert response.headers["content-type"] == "application/json"
    assert response.json()["content"] == [text("Hi")]


def test_an_empty_list_of_tools_is_not_forwarded(client, upstream, model):
    script = upstream.script(model, says("Hi"))
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    title = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    got = upstream_body(
        client, script, model=model, tools=[], tool_choice={"type": "auto"}, **title
    )
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & got.keys()
    assert got["response_format"]["json_schema"]["schema"] == schema


@pytest.mark.parametrize("stream", [True, False])
def test_a_web_search_is_refused_before_the_upstream_is_asked(client, upstream, model, stream):
    """C3: Claude Code tells its model that the search failed, in the words of the error."""
    script = upstream.script(model, says("From memory."))
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    body = ask(model, tools=[search], tool_choice={"type": "auto"}, stream=stream)
    response = client.post("/v1/messages", json=body)
    assert response.status_code == 400
    assert "web_search is not available" in response.json()["error"]["message"]
    assert not script.requests


def test_tool_search_gives_the_model_names_and_schemas(client, upstream, model):
    """Most tools are not in `tools`: a result without text names them."""
    script = upstream.script(model, says("Hi"))
    found = {**TOOLS[0], "name": "WebSearch", "defer_loading": True}
    tools = [*TOOLS, {**TOOLS[0], "name": "ToolSearch"}, PLACEHOLDER, found]
    reference = {"type": "tool_reference", "tool_name": "WebSearch"}
    lost = {"type": "tool_reference", "tool_name": "Elsewhere"}
    search = {"type": "tool_use", "id": "a", "name": "ToolSearch", "input": {"query": "web"}}
    messages = [user("hi"), assistant(search), user(result("a", [reference, lost]))]
    got = upstream_body(client, script, model=model, tools=tools, messages=messages)
    names = [tool["function"]["name"] for tool in got["tools"]]
    assert names == ["get_tide", "ToolSearch", "WebSearch"]
    offered = got["messages"][2]["content"]
    assert "WebSearch" in offered
    assert "Elsewhere" in offered
    schema = json.JSONDecoder().raw_decode(offered[offered.index("{") :])[0]
    assert schema == TOOLS[0]["input_schema"]


def test_a_placeholder_alone_offers_no_tool(client, upstream, model):
    script = upstream.script(model, says("Hi"))
    assert "tools" not in upstream_body(client, script, model=model, tools=[PLACEHOLDER])


def test_results_are_matched_by_id_in_any_order(client, upstream, model):
    """Results come in order of completion; `is_error` may be absent, and text may follow."""
    script = upstream.script(model, says("Hi"))
    second = {"is_error": True, "content": "no such harbor", "type": "tool_result"}
    messages = [
        user("hi"),
        assistant(text("Both."), use("a", harbor="Moss"), use("b", harbor="Oslo")),
        user({**second, "tool_use_id": "b"}, result("a"), text("And now?")),
    ]
    got = upstream_body(client, script, model=model, tools=TOOLS, messages=messages)["messages"]
    assert [message["role"] for message in got] == ["user", "assistant", "tool", "tool", "user"]
    assert [call["id"] for call in got[1]["tool_calls"]] == ["a", "b"]
    assert [(m["tool_call_id"], m["content"]) for m in got[2:4]] == [
        ("a", "low"),
        ("b", "Error: no such harbor"),
    ]


def test_a_call_that_the_client_could_not_parse_is_sent_back_unchanged(client, upstream, model):
    script = upstream.script(model, says("Hi"))
    unparsed = {"__unparsedToolInput": {"raw": '{"harbor": "Mo', "len": 14}}
    failed = result("a", "<tool_use_error>not JSON</tool_use_error>", is_error=True)
    messages = [user("hi"), assistant(use("a", **unparsed)), user(failed)]
    got = upstream_body(client, script, model=model, tools=TOOLS, messages=messages)["messages"]
    assert json.loads(got[1]["tool_calls"][0]["function"]["arguments"]) == unparsed
    assert got[2]["content"] == "<tool_use_error>not JSON</tool_use_error>"


ODD_IDS = ["functions.Bash:0", "call_7", "x" * 300, ""]


@pytest.mark.parametrize("call_id", ODD_IDS, ids=["kimi", "openai", "300 characters", "empty"])
def test_an_id_of_any_form_in_the_history_is_accepted(client, upstream, model, call_id):
    script = upstream.script(model, says("Hi"))
    messages = [user("hi"), assistant(use(call_id)), user(result(call_id))]
    got = upstream_body(client, script, model=model, tools=TOOLS, messages=messages)["messages"]
    assert got[1]["tool_calls"][0]["id"] == got[2]["tool_call_id"]


def test_empty_text_beside_a_call_does_not_reach_the_upstream(client, upstream, model):
    script = upstream.script(model, says("Hi"))
    messages = [user("hi"), assistant(text(""), use("a")), user(result("a"), text(""))]
    got = upstream_body(client, script, model=model, tools=TOOLS, messages=messages)["messages"]
    assert [message["role"] for message in got] == ["user", "assistant", "tool"]


def test_thinking_travels_to_the_client_and_back_to_the_upstream(client, upstream, model):
    """The client keeps thinking verbatim, with `""` for a missing signature."""
    wire = stream({"reasoning": "The tide "}, {"reasoning": "turns."}, {"tool_calls": [entry()]})
    script = upstream.script(model, reply(wire), says("Low."))
    answer = whole_message(client, model, tools=TOOLS)
    thinking, call = answer["content"]
    assert thinking == {"type": "thinking", "thinking": "The tide turns.", "signature": ""}
    redacted = {"type": "redacted_thinking", "data": "sealed"}
    messages = [user("hi"), assistant(thinking, redacted, call), user(result(call["id"]))]
    got = upstream_body(client, script, model=model, tools=TOOLS, messages=messages)["messages"][1]
    assert got["reasoning"] == "The tide turns."
    assert [detail["data"] for detail in got["reasoning_details"]] == ["sealed"]


def test_a_signature_is_sent_in_a_delta(client, upstream, model):
    detail = {"type": "reasoning.text", "text": "Hm.", "signature": "sig"}
    upstream.script(model, reply(stream({"reasoning_details": [detail]}, {"content": "Hi"})))
    response = client.post("/v1/messages", json=ask(model, stream=True))
    deltas = [event["delta"] for name, event in payloads(response.content) if "delta" in event]
    assert {"type": "signature_delta", "signature": "sig"} in deltas


@pytest.mark.parametrize("fields", [{"type": "create"}, {"type": "continue"}])
def test_a_thread_is_refused_with_the_message_that_makes_the_sdk_send_the_history(
    client, upstream, model, fields
):
    upstream.script(model, says("Hi"))
    response = client.post("/v1/messages", json=ask(model, thread=fields))
    assert error_of(response)[:2] == (400, "invalid_request_error")
    details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    assert response.json()["error"]["details"] == details


# URLs


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages?beta=true", "/v1/v1/messages"])
def test_messages_are_answered_whatever_the_query_and_the_base_url(client, upstream, model, path):
    upstream.script(model, says("Hi"))
    assert read(client.post(path, json=ask(model, stream=True))).text == "Hi"
    assert client.post(path, json=ask(model)).json()["content"] == [text("Hi")]


COUNTED = {
    "a word": {"messages": [user("foo")]},
    "a word and no tools": {"messages": [user("foo")], "tools": []},
    "a large file": {"messages": [user("x" * 115_000)], "tools": []},
    "only tools": {"messages": [user("foo")], "tools": TOOLS},
    "an image": {"messages": [user(PNG)]},
}


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/v1/messages/count_tokens"])
@pytest.mark.parametrize("fields", COUNTED.values(), ids=COUNTED)
def test_tokens_are_counted_in_the_shapes_that_claude_code_sends(client, path, fields):
    betas = {"anthropic-beta": f"{BETAS},token-counting-2024-11-01"}
    body = {"model": "kimi-k2.5", **fields}
    response = client.post(f"{path}?beta=true", json=body, headers=CLAUDE_CODE | betas)
    count = response.json()["input_tokens"]
    assert response.status_code == 200
    assert isinstance(count, int)
    assert count > 0


def test_the_token_count_grows_with_the_size_of_a_file(client):
    """Claude Code reads at most 25,000 tokens of a file, by this count."""
    counts = [
        client.post(
            "/v1/messages/count_tokens", json={"model": "m", "messages": [user("word " * words)]}
        ).json()["input_tokens"]
        for words in (10, 1000, 100_000)
    ]
    assert counts == sorted(counts)
    assert counts[0] < 100
    assert 10_000 < counts[2] < 250_000


MODELS = {
    "claude code, both credentials": {
        "user-agent": "claude-code/2.1.325",
        "x-api-key": KEY,
        "authorization": f"Bearer {KEY}",
    },
    "claude code, one credential": {
        "user-agent": "claude-code/2.1.325",
        "authorization": f"Bearer {KEY}",
    },
    "anthropic-py": {
        "user-agent": "Anthropic/Python 2.8.0",
        "authorization": f"Bearer {KEY}",
        "anthropic-version": "2026-10-21",
    },
}


@pytest.mark.realtime
@pytest.mark.parametrize("path", ["/v1/models?limit=1000", "/v1/v1/models?limit=1000"])
@pytest.mark.parametrize("headers", MODELS.values(), ids=MODELS)
def test_models_are_listed_for_an_anthropic_client_at_once_and_without_a_redirect(
    gateway, path, headers
):
    started = time.monotonic()
    response = httpx.get(f"{gateway.url}{path}", headers=headers)
    assert time.monotonic() - started < 3
    assert response.status_code == 200
    listed = response.json()["data"]
    assert all({"id", "display_name", "type", "created_at"} <= model.keys() for model in listed)
    # The client shows only these models.
    assert {"claude-opus", "claude-sonnet", "claude-haiku"} <= {model["id"] for model in listed}


def test_models_are_listed_in_the_other_shape_for_other_clients(gateway):
    headers = {"user-agent": "OpenAI/Python 3.49.0", "authorization": f"Bearer {KEY}"}
    page = httpx.get(f"{gateway.url}/v1/models", headers=headers).json()
    assert page["object"] == "list"
    assert all(model["object"] == "model" for model in page["data"])
    one = httpx.get(f"{gateway.url}/v1/models/claude-opus", headers=headers).json()
    assert (one["object"], one["id"]) == ("model", "claude-opus")
    assert "context_length" not in one


@pytest.mark.parametrize("path", ["/v1/models/claude-opus", "/v1/v1/models/claude-opus"])
def test_one_model_is_described_by_the_model_behind_it(client, path):
    """C7: a name alone does not tell which model answers."""
    described = client.get(path).json()
    assert described["id"] == "claude-opus"
    assert described["display_name"] == "claude-opus → deepseek/deepseek-v3.2"
    assert "max_input_tokens" not in described


def test_a_model_is_described_with_the_limits_of_its_route(gateway, client):
    """C7: the context window is told to clients of both dialects, if it is known."""
    gateway.edit(
        "ModelRoute.objects.create(pattern='limited-model', upstream_model='vendor/limited',"
        "context_window=65536, max_tokens=4096, "
        "upstream=Upstream.objects.get(name='openrouter'))"
    )
    headers = {"authorization": f"Bearer {KEY}", "user-agent": "OpenAI/Python 3.49.0"}
    in_openai = httpx.get(f"{gateway.url}/v1/models/limited-model", headers=headers).json()
    assert in_openai["context_length"] == 65536
    listed = {model["id"]: model for model in client.get("/v1/models").json()["data"]}
    assert listed["limited-model"] == client.get("/v1/models/limited-model").json()
    assert listed["limited-model"]["max_input_tokens"] == 65536
    assert listed["limited-model"]["max_tokens"] == 4096
    assert listed["limited-model"]["display_name"] == "limited-model → vendor/limited"


PROBES = {
    "at the start of 197": ("HEAD", "/", 200),
    "at the start of 325": ("HEAD", "/api/hello", 200),
    "telemetry of 2.0.76": ("POST", "/api/event_logging/batch", 404),
    "usage": ("GET", "/api/oauth/usage", 404),
    "metrics": ("POST", "/v1/metrics", 404),
    "a slash too many": ("POST", "/v1/messages/", 404),
    "the wrong method": ("GET", "/v1/messages", 405),
}


@pytest.mark.parametrize(("method", "path", "status"), PROBES.values(), ids=PROBES)
def test_probes_are_answered_without_html_and_without_a_redirect(gateway, method, path, status):
    body = {"events": []} if method == "POST" else None
    response = httpx.request(method, f"{gateway.url}{path}", json=body)
    assert response.status_code == status
    assert "html" not in response.headers["content-type"]
    assert "html" not in response.text
    assert "request-id" in response.headers


def test_a_connection_serves_one_request_after_another(gateway, upstream, model):
    upstream.script(model, says("Hi"))
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
    headers = {"x-api-key": KEY, "content-type": "application/json"}
    connection.connect()
    first = connection.sock
    for streamed in (True, False, True):
        body = json.dumps(ask(model, stream=streamed))
        connection.request("POST", "/v1/messages?beta=true", body, headers)
        assert b"Hi" in connection.getresponse().read()
        assert connection.sock is first
    connection.close()


# Answers


REPEATING = {
    "structured": calls(entry(), entry(index=1)),
    "structured, without ids": calls(entry(call_id=None), entry(index=1, call_id=None)),
    "structured, with empty ids": calls(entry(call_id=""), entry(index=1, call_id="")),
    "structured, with Kimi's ids": calls(
        entry(call_id="functions.get_tide:0"), entry(index=1, call_id="functions.get_tide:1")
    ),
    "Kimi's text": says(
        f"<|tool_call_begin|>functions.get_tide:0<|tool_call_argument_begin|>{HARBOR}<|tool_call_end|>"
        * 2
    ),
}


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("answer", REPEATING.values(), ids=REPEATING)
def test_tool_ids_are_unique_in_the_whole_session(client, upstream, kimi, answer, streamed):
    """The client drops a call whose id it has already seen."""
    upstream.script(kimi, answer)
    messages, seen = [user("hi")], []
    for _ in range(3):
        body = {**ask(kimi, tools=TOOLS, stream=streamed), "messages": messages}
        response = client.post("/v1/messages", json=body)
        if streamed:
            ids = read(response).ids
        else:
            ids = [b["id"] for b in response.json()["content"] if b["type"] == "tool_use"]
        assert len(ids) == 2
        seen += ids
        messages += [assistant(*map(use, ids)), user(*map(result, ids))]
    assert len(set(seen)) == 6
    assert all(seen)


def test_message_ids_are_unique_even_if_those_of_the_upstream_are_not(client, upstream, model):
    upstream.script(model, says("Hi"))
    ids = [whole_message(client, model)["id"] for _ in range(2)]
    for _ in range(2):
        response = client.post("/v1/messages", json=ask(model, stream=True))
        ids.append(payloads(response.content)[0][1]["message"]["id"])
    assert len(set(ids)) == 4


ALL_KINDS = stream(
    {"reasoning": "Hm."}, {"content": "I look."}, {"tool_calls": [entry()]}, finish="tool_calls"
)


def test_every_event_is_named_and_content_is_only_in_deltas(client, upstream, model):
    upstream.script(model, reply(ALL_KINDS))
    response = client.post("/v1/messages", json=ask(model, tools=TOOLS, stream=True))
    events = payloads(response.content)
    assert all(name == event["type"] for name, event in events)
    assert [event["content_block"] for _, event in events if "content_block" in event] == [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "call_1", "name": "get_tide", "input": {}},
    ]
    deltas = [event["delta"] for name, event in events if name == "content_block_delta"]
    assert [[*delta.values()][1] for delta in deltas] == ["Hm.", "", "I look.", HARBOR]
    assert deltas[1] == {"type": "signature_delta", "signature": ""}


def test_blocks_follow_one_another_and_the_message_ends_once(client, upstream, model):
    """The SDK needs indexes without gaps, and drops a block that is not closed."""
    upstream.script(model, reply(ALL_KINDS))
    names = send_and_read(client, model, tools=TOOLS).names
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    thinking = [block[0], block[1], block[1], block[2]]  # the last delta is its empty signature
    assert names == ["message_start", *thinking, *block * 2, "message_delta", "message_stop"]


def test_a_run_of_text_is_one_block(client, upstream, model):
    """Print mode shows only the last block of text."""
    pieces = [{"content": "One "}, {"content": "", "reasoning": ""}, {"content": "text."}]
    upstream.script(model, reply(*map(chunk, pieces), Pause(0.7), stream({"content": " More."})))
    seen = send_and_read(client, model)
    assert (seen.text, seen.names.count("content_block_start")) == ("One text. More.", 1)


def test_message_start_has_usage_and_every_field_that_old_clients_read(client, upstream, model):
    upstream.script(model, says("Hi"))
    response = client.post("/v1/messages", json=ask(model, stream=True))
    name, event = payloads(response.content)[0]
    usage = event["message"].pop("usage")
    assert name == "message_start"
    assert (usage["output_tokens"], usage["input_tokens"] > 0) == (0, True)
    assert event["message"].pop("id").startswith("msg_")
    assert event["message"] == {
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


USAGES = {
    "numbers": {"prompt_tokens": 9, "completion_tokens": 3},
    "strings": {"prompt_tokens": "9", "completion_tokens": "3"},
    "fractions": {"prompt_tokens": 9.0, "completion_tokens": 3.0},
}


@pytest.mark.parametrize("usage", USAGES.values(), ids=USAGES)
def test_the_final_token_counts_come_last_and_are_numbers(client, upstream, model, usage):
    """The client compacts by these counts; it would concatenate strings."""
    upstream.script(model, reply(chunk({"content": "Hi"}, "stop", usage=usage)))
    assert send_and_read(client, model).usage == {"input_tokens": 9, "output_tokens": 3}
    assert whole_message(client, model)["usage"] == {"input_tokens": 9, "output_tokens": 3}


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": None, "completion_tokens": -1}, {"prompt_tokens": "many"}]
)
def test_unknown_token_counts_are_never_null(client, upstream, model, usage):
    upstream.script(model, reply(chunk({"content": "Hi"}, "stop", usage=usage)))
    for counts in (send_and_read(client, model).usage, whole_message(client, model)["usage"]):
        assert all(type(count) is int for count in counts.values())
        assert counts["output_tokens"] == 0


STOPS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
    "tool_calls": "end_turn",  # the answer has no call
    "function_call": "end_turn",
    "next_year": "end_turn",
}


@pytest.mark.parametrize(("finish", "stop"), STOPS.items(), ids=STOPS)
def test_the_stop_reason_is_one_that_clients_know(client, upstream, model, finish, stop):
    """After `tool_use` without a call, the client drops the text and asks again."""
    upstream.script(model, reply(stream({"content": "Hi"}, finish=finish)))
    assert send_and_read(client, model, tools=TOOLS).stop == stop
    assert whole_message(client, model, tools=TOOLS)["stop_reason"] == stop


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call", "next_year"])
def test_a_call_makes_the_stop_reason_tool_use(client, upstream, model, finish):
    upstream.script(model, calls(entry(), finish=finish))
    assert send_and_read(client, model, tools=TOOLS).stop == "tool_use"
    assert whole_message(client, model, tools=TOOLS)["stop_reason"] == "tool_use"


def test_a_call_that_the_token_limit_cut_is_closed_and_cannot_run(client, upstream, model):
    upstream.script(model, calls(entry('{"harbor":"Mo'), finish="length"))
    seen = send_and_read(client, model, tools=TOOLS)
    assert seen.names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert (seen.calls, seen.stop) == ([], "max_tokens")
    answer = whole_message(client, model, tools=TOOLS)
    assert [block["type"] for block in answer["content"]] == ["text"]
    assert answer["stop_reason"] == "max_tokens"


def test_an_empty_answer_is_one_empty_text_block(client, upstream, model):
    upstream.script(model, says(""))
    assert whole_message(client, model)["content"] == [text("")]
    seen = send_and_read(client, model)
    assert (seen.names.count("content_block_start"), seen.stop) == (1, "end_turn")


INPUTS = {
    "none": (None, {}),
    "empty": ("", {}),
    "null": ("null", {}),
    "encoded twice": (json.dumps(HARBOR), {"harbor": "Moss"}),
    "as an object": ({"harbor": "Moss"}, {"harbor": "Moss"}),
    "a brace too many": (HARBOR + "}", {"harbor": "Moss"}),
    "numbers as strings": ('{"harbor":"Moss","days":"3"}', {"harbor": "Moss", "days": "3"}),
    "90 KB": (json.dumps({"harbor": "x" * 90_000}), {"harbor": "x" * 90_000}),
}


@pytest.mark.parametrize(("arguments", "read_as"), INPUTS.values(), ids=INPUTS)
def test_a_calls_input_is_an_object_however_it_was_written(
    client, upstream, model, arguments, read_as
):
    upstream.script(model, calls(entry(arguments)))
    assert [call["arguments"] for call in send_and_read(client, model, tools=TOOLS).calls] == [
        read_as
    ]
    assert whole_message(client, model, tools=TOOLS)["content"][0]["input"] == read_as


@pytest.mark.parametrize("name", ["test/nulls", "moonshotai/kimi-k2-nulls", "qwen/qwen3-nulls"])
def test_null_for_an_optional_parameter_is_removed(client, upstream, name):
    """The client rejects null; for a required parameter its message helps the model more."""
    upstream.script(name, calls(entry('{"days":null,"harbor":"Moss"}')))
    read_as = {"harbor": "Moss"}
    assert [call["arguments"] for call in send_and_read(client, name, tools=TOOLS).calls] == [
        read_as
    ]
    assert whole_message(client, name, tools=TOOLS)["content"][0]["input"] == read_as
    upstream.script(name, calls(entry('{"harbor":null}')))
    assert whole_message(client, name, tools=TOOLS)["content"][0]["input"] == {"harbor": None}


BROKEN = {
    "not JSON": "{oops}",
    "cut": '{"harbor":',
    "two objects": HARBOR + HARBOR,
    "a line end in a string": '{"harbor":"Mo\nss"}',
    "an array": "[1]",
    "a number": "7",
}


@pytest.mark.parametrize("arguments", BROKEN.values(), ids=BROKEN)
def test_an_input_that_is_not_an_object_is_an_error_and_its_block_stays_open(
    client, upstream, model, arguments
):
    """The client runs a block once it is closed; 2.0.76 ends the session on trailing data."""
    upstream.script(model, calls(entry(arguments)))
    seen = send_and_read(client, model, tools=TOOLS)
    assert "content_block_stop" not in seen.names
    assert seen.error == "format_transformation_error"
    response = client.post("/v1/messages", json=ask(model, tools=TOOLS))
    assert error_of(response)[:2] == (502, "format_transformation_error")


NAMES = {"GET_TIDE": "get_tide", "functions.get_tide": "get_tide", "unknown_tool": "unknown_tool"}


@pytest.mark.parametrize(("written", "meant"), NAMES.items(), ids=NAMES)
def test_a_tools_name_is_spelled_as_the_client_spells_it(client, upstream, model, written, meant):
    """An unknown name is passed on: the client's error makes the model correct itself."""
    upstream.script(model, calls(entry(name=written)))
    assert [call["name"] for call in send_and_read(client, model, tools=TOOLS).calls] == [meant]


def test_a_call_without_a_name_is_an_error(client, upstream, model):
    upstream.script(model, calls(entry(name="")))
    seen = send_and_read(client, model, tools=TOOLS)
    assert (seen.calls, seen.error) == ([], "format_transformation_error")


def test_twenty_thousand_deltas_of_one_character_arrive(client, upstream, model):
    one = chunk({"content": "x"})
    upstream.script(model, reply(*[one * 1000] * 20, stream()))
    assert send_and_read(client, model).text == "x" * 20_000


# Failures


KEYS = {
    "missing": {},
    "wrong": {"x-api-key": "sk-athena-wrong"},
    "wrong bearer": {"authorization": "Bearer sk-athena-wrong"},
}


@pytest.mark.parametrize("headers", KEYS.values(), ids=KEYS)
def test_a_401_tells_the_client_not_to_retry(gateway, headers):
    """Without the header, Claude Code retries ten times in three minutes."""
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        response = httpx.post(f"{gateway.url}{path}", json=ask("m"), headers=headers)
        assert error_of(response)[:2] == (401, "authentication_error")
        assert response.headers["x-should-retry"] == "false"


RETRIES = {
    400: (400, True),  # Claude Code never retries a 400
    401: (502, False),  # the gateway's own credential and account: no client can fix them
    402: (502, False),
    403: (502, False),
    404: (404, True),
    408: (504, True),
    409: (502, True),
    413: (413, True),
    422: (400, True),
    429: (429, True),
    500: (500, True),
    501: (502, True),
    502: (502, True),
    503: (529, True),
    504: (504, True),
    529: (529, True),
}


@pytest.mark.parametrize(("status", "expected"), RETRIES.items(), ids=map(str, RETRIES))
def test_only_permanent_failures_tell_the_client_not_to_retry(
    client, upstream, model, status, expected
):
    upstream.script(model, whole({"error": {"message": "why"}}, status=status))
    response = client.post("/v1/messages", json=ask(model, stream=True))
    may_retry = response.headers.get("x-should-retry") != "false"
    assert (response.status_code, may_retry) == expected


BODIES = {
    "OpenAI": (b'{"error":{"message":"why","type":"x","code":null}}', "why"),
    "Anthropic": (b'{"type":"error","error":{"type":"x","message":"why"}}', "why"),
    "a string": (b'{"error":"why"}', "why"),
    "FastAPI": (b'{"detail":"why"}', "why"),
    "FastAPI's list": (b'{"detail":[{"loc":["body"],"msg":"why"}]}', "why"),
    "nothing": (b"", "openrouter sent an empty body (HTTP 500, application/json)"),
}


@pytest.mark.parametrize(("body", "message"), BODIES.values(), ids=BODIES)
def test_an_error_of_any_shape_reaches_the_client_in_the_shape_of_anthropic(
    client, upstream, model, body, message
):
    upstream.script(model, whole(body, status=500))
    response = client.post("/v1/messages", json=ask(model, stream=True))
    assert error_of(response) == (500, "api_error", message)


BREAKS = {
    "error": data({"error": {"message": "why", "code": 500}}),
    "overload": data({"error": {"message": "why", "code": 529}}),
    "reset": Reset,
    "close": Close,
}


@pytest.mark.parametrize("break_", BREAKS.values(), ids=BREAKS)
def test_a_failure_before_the_first_content_has_a_status_and_no_stream(
    client, upstream, model, break_
):
    role = chunk({"role": "assistant", "content": ""})
    upstream.script(model, reply(role, break_, ends=False))
    response = client.post("/v1/messages", json=ask(model, stream=True))
    status, kind, _ = error_of(response)
    overloaded = break_ == BREAKS["overload"]
    assert (status, kind) == ((529, "overloaded_error") if overloaded else (502, "api_error"))


@pytest.mark.parametrize("break_", BREAKS.values(), ids=BREAKS)
def test_a_failure_in_the_stream_closes_the_text_and_sends_an_error(
    client, upstream, model, break_
):
    upstream.script(
        model, reply(chunk({"content": "Half "}), Pause(0.1), break_, ends=False), says("All of it")
    )
    seen = send_and_read(client, model)
    assert seen.names[-3:] == ["content_block_stop", "error", "message_stop"]
    assert (seen.text, seen.stop) == ("Half ", None)
    # The immediate retry of Claude Code; `stream` is absent up to version 197.
    assert whole_message(client, model, stream=False)["content"] == [text("All of it")]
    assert whole_message(client, model)["content"] == [text("All of it")]


@pytest.mark.parametrize("break_", BREAKS.values(), ids=BREAKS)
def test_a_failure_in_a_call_leaves_the_call_open_and_keeps_the_one_before_it(
    client, upstream, model, break_
):
    """The client runs closed calls: a finished call is kept, an unfinished one stays open."""
    half = entry('{"harbor":"Mo', index=1, call_id="call_2")
    parts = [chunk({"tool_calls": [entry()]}), chunk({"tool_calls": [half]})]
    upstream.script(model, reply(*parts, Pause(0.1), break_, ends=False))
    seen = send_and_read(client, model, tools=TOOLS)
    assert [call["arguments"] for call in seen.calls] == [{"harbor": "Moss"}]
    assert seen.names.count("content_block_start") == 2
    assert (seen.names.count("content_block_stop"), seen.stop) == (1, None)
    assert seen.names[-2:] == ["error", "message_stop"]


OVERFLOWS = {
    "Anthropic": "prompt is too long: 250000 tokens > 200000 maximum",
    "OpenAI": "This model's maximum context length is 200000 tokens. However, your messages resulted in 250000 tokens. Please reduce the length of the messages.",
    "input": "Input is too long.",
    "code": "context_length_exceeded",
}


@pytest.mark.parametrize("as_status", [True, False], ids=["status", "first event"])
@pytest.mark.parametrize(("name", "message"), OVERFLOWS.items(), ids=OVERFLOWS)
def test_a_conversation_that_is_too_long_is_a_400_before_the_stream(
    client, upstream, model, name, message, as_status
):
    """Every version compacts on this wording only, and not inside a stream."""
    error = {"error": {"message": message, "code": 400}}
    upstream.script(model, whole(error, status=400) if as_status else reply(data(error)))
    response = client.post("/v1/messages", json=ask(model, stream=True))
    status, kind, shown = error_of(response)
    assert (status, kind) == (400, "invalid_request_error")
    assert shown.startswith("prompt is too long: ")
    if name in ("Anthropic", "OpenAI"):
        assert shown == "prompt is too long: 250000 tokens > 200000 maximum"


def test_an_overflow_in_an_open_stream_is_a_400_on_the_retry(client, upstream, model):
    error = {"error": {"message": OVERFLOWS["OpenAI"], "code": 400}}
    upstream.script(model, [Pause(1.8), *reply(data(error))], whole(error, status=400))
    response = client.post("/v1/messages", json=ask(model, stream=True))
    assert read(response).error == "invalid_request_error"
    assert OVERFLOWS["Anthropic"] in response.text
    repeated = client.post("/v1/messages", json=ask(model, stream=False))
    assert error_of(repeated) == (400, "invalid_request_error", OVERFLOWS["Anthropic"])


def test_the_message_about_max_tokens_is_not_changed(client, upstream, model):
    """The client parses the numbers and lowers its limit."""
    message = "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length or `max_tokens` and try again"
    upstream.script(model, whole({"error": {"message": message}}, status=400))
    response = client.post("/v1/messages", json=ask(model, stream=True))
    assert error_of(response) == (400, "invalid_request_error", message)


def test_safeguards_are_ignored_and_get_no_invented_result(client, upstream, model):
    """A result would claim a safety check that never ran."""
    script = upstream.script(model, calls(entry()))
    safeguards = [{"type": "dangerous_tool_use", "classifier_context": {"a": 1}}]
    betas = {"anthropic-beta": f"{BETAS},dangerous-tool-use-2026-09-03,afk-mode-2026-01-31"}
    for streamed in (True, False):
        body = ask(model, tools=TOOLS, safeguards=safeguards, stream=streamed)
        response = client.post("/v1/messages?beta=true", json=body, headers=betas)
        assert response.status_code == 200
        assert "safeguard" not in response.text
        assert "safeguards" not in script.last.json


def test_max_tokens_is_lowered_to_the_limit_of_the_model(gateway, client, upstream):
    """An upstream that rejects 32,000 is fatal for the client."""
    gateway.edit(
        "ModelRoute.objects.create(pattern='test/limited', max_tokens=8192,"
        " upstream=Upstream.objects.get(name='openrouter'))"
    )
    script = upstream.script("test/limited", says("Hi"))
    assert (
        upstream_body(client, script, model="test/limited", max_tokens=32_000)["max_tokens"] == 8192
    )
    assert upstream_body(client, script, model="test/limited", max_tokens=100)["max_tokens"] == 100
