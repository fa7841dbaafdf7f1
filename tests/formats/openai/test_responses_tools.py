"""Tools of the Responses API in requests to Chat Completions: carried or rejected, never lost."""

import json

import pytest

from formats import DIALECTS, ClientError, NoticeCode, Target

PARAMETERS = {"type": "object", "properties": {"q": {"type": "string"}}}
SEARCH = {"type": "tool_search", "execution": "client", "parameters": PARAMETERS}
EXEC = {"type": "function", "name": "exec", "parameters": PARAMETERS, "strict": False}
PATCH = {"type": "custom", "name": "apply_patch"}
AGENTS = {"type": "namespace", "name": "agents", "tools": [EXEC | {"name": "spawn"}]}
TURN = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}


def render(upstream, **fields):
    body = {"model": "m", "max_tokens": 9, **fields}
    conversation = DIALECTS["openai"].parse(json.dumps(body).encode())
    return DIALECTS[upstream].render(conversation, Target())


def names(rendered):
    tools = json.loads(rendered.body).get("tools", [])
    return [tool.get("name") or tool["function"]["name"] for tool in tools]


def added(*tools):
    return [{"type": "additional_tools", "role": "developer", "tools": tools}, TURN]


@pytest.mark.parametrize("upstream", DIALECTS)
def test_tool_search_and_namespaces_do_not_fail_a_request_with_other_tools(upstream):
    """Fault C9: `tool_search` has no name, which was an error."""
    rendered = render(upstream, input=[TURN], tools=[SEARCH, EXEC, PATCH, AGENTS])
    assert names(rendered) == ["exec", "apply_patch"]
    dropped = [n.detail for n in rendered.notices if n.code is NoticeCode.SERVER_TOOL_DROPPED]
    assert dropped == ["tool_search", "namespace"]


@pytest.mark.parametrize("upstream", DIALECTS)
def test_tools_of_an_additional_tools_item_are_carried(upstream):
    """Fault C9: Codex sends no `tools` for some models."""
    assert names(render(upstream, input=added(EXEC, PATCH, AGENTS))) == ["exec", "apply_patch"]
    both = render(upstream, tools=[EXEC], input=added(EXEC) + added(PATCH))
    assert names(both) == ["exec", "apply_patch"], "a repeated tool is declared once"
    choice = {"type": "function", "name": "exec"}
    assert names(render(upstream, input=added(EXEC), tool_choice=choice)) == ["exec"]


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize(
    "fields",
    [{"input": added(AGENTS)}, {"input": [TURN], "tools": [SEARCH, AGENTS]}],
    ids=["additional", "declared"],
)
def test_a_request_that_would_lose_all_its_tools_is_refused(upstream, fields):
    """Fault C9."""
    with pytest.raises(ClientError, match="agents is not available at this model's upstream"):
        render(upstream, **fields)


@pytest.mark.parametrize(
    "fields", [{"input": [TURN]}, {"messages": [{"role": "user", "content": "Hi", "x": 1}]}]
)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_client_metadata_reaches_no_upstream(upstream, fields):
    """Fault C9: it holds ids of the device and the session."""
    rendered = render(upstream, **fields, client_metadata={"device": "secret"}, seed=7)
    assert b"secret" not in rendered.body
    assert "client_metadata" in {notice.detail for notice in rendered.notices}
    if upstream == "openai":
        assert json.loads(rendered.body)["seed"] == 7
    if upstream == "openai" and "messages" in fields:
        assert json.loads(rendered.body)["messages"] == fields["messages"]
