"""The examples and statements of docs/cursor.md are correct."""

import json
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.urls import resolve

from formats import DIALECTS, ClientError, NoticeCode, Target, detect_format
from formats.conversation import ToolResult

PAGE = (Path(__file__).parent.parent / "docs" / "cursor.md").read_text()
EXAMPLES = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_every_example_is_accepted_and_means_the_same_conversation(example, upstream):
    conversation = DIALECTS["openai"].parse(example.encode())
    [system] = conversation.system
    assert system.text == "You are a coding agent."
    assert conversation.call_ids() == {"call_1"}
    assert isinstance(conversation.messages[-1].parts[0], ToolResult)
    rendered = DIALECTS[upstream].render(conversation, Target())
    assert len(json.loads(rendered.body)["tools"]) == len(json.loads(example)["tools"])
    assert NoticeCode.SHAPE_TRANSLATED in {notice.code for notice in rendered.notices}


def test_there_are_examples_of_both_kinds():
    assert {"messages", "input"} == {
        key for example in EXAMPLES for key in json.loads(example) if key in ("messages", "input")
    }


def test_the_settings_and_paths_in_the_page_exist():
    for name in set(re.findall(r"`(ATHENA_[A-Z_]+)`", PAGE)):
        assert name in settings.VARIABLES
    for path in set(re.findall(r"(?:GET|POST) (/v1/[a-z/]+)", PAGE)):
        assert resolve(path, urlconf=settings.ROOT_URLCONF).route != "v1/<path:path>"
    assert f"`{NoticeCode.SHAPE_TRANSLATED}`" in PAGE


def test_the_example_route_differs_from_cursors_names_and_uses_a_kimi_model():
    pattern, model = (re.search(rf"\| {field} \| `(.+?)` \|", PAGE)[1] for field in
                      ("pattern", "upstream model"))  # fmt: skip
    assert not re.match(r"gpt|claude|gemini|grok|auto", pattern)
    assert detect_format(model).format == "kimi"
    assert {json.loads(example)["model"] for example in EXAMPLES} == {pattern}


def test_references_to_stored_items_are_refused_as_documented():
    for name in ("previous_response_id", "conversation", "prompt"):
        assert f"`{name}`" in PAGE
        body = json.dumps({"model": "m", "input": "x", name: "x"}).encode()
        with pytest.raises(ClientError, match=name):
            DIALECTS["openai"].parse(body)
    assert "messages.3.content.0.tool_use_id: is required" in PAGE
    broken = json.loads(EXAMPLES[0])
    del broken["messages"][3]["content"][0]["tool_use_id"]
    with pytest.raises(ClientError, match=r"^messages\.3\.content\.0\.tool_use_id: is required"):
        DIALECTS["openai"].parse(json.dumps(broken).encode())
