"""Fields that select a model: names in another case are rejected, and every named model is found."""

import json
import tracemalloc

import pytest
from msgspec import Raw

from formats import DIALECTS, ClientError, named_models


def found(dialect, fields):
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    conversation = DIALECTS[dialect].parse(json.dumps(body | fields).encode())
    return sorted(named_models(conversation.source))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"models": ["a", "b"]}, [("models.0", "a"), ("models.1", "b")]),
        ({"fallbacks": [{"model": "a"}]}, [("fallbacks.0.model", "a")]),
        ({"fallbacks": [{"m": ["a"]}]}, [("fallbacks.0.m.0", "a")]),
        ({"preset": "a"}, [("preset", "a")]),
        ({"route": "a"}, [("route", "a")]),
        ({"Deployment_ID": "a"}, [("Deployment_ID", "a")]),
        ({"prompt_id": "a"}, [("prompt_id", "a")]),
        ({"engine": "a"}, [("engine", "a")]),
        ({"Prompt": {"id": "a", "version": 2}}, [("Prompt.id", "a")]),
        ({"plugins": [{"id": "web", "engine": "exa"}]}, []),
        ({"fallbackModels": ["a"]}, [("fallbackModels.0", "a")]),
        ({"extra_body": {"Models": ["a"]}}, [("extra_body.Models.0", "a")]),
        (
            {"providerOptions": {"gateway": {"models": ["a"], "order": ["x"]}}},
            [("providerOptions.gateway.models.0", "a")],
        ),
        (
            {"plugins": [{"id": "auto-router", "allowed_models": ["a"]}]},
            [("plugins.0.allowed_models.0", "a")],
        ),
        (
            {"tools": [{"type": "advisor_20260301", "name": "advisor", "model": "a"}]},
            [("tools.0.model", "a")],
        ),
        ({"provider": {"order": ["x"], "allow_fallbacks": True}}, []),
        ({"models": None, "preset": None, "transforms": ["x"], "seed": 5}, []),
        ({"metadata": {"user_id": "x", "model": "x"}}, []),
    ],
    ids=str,
)
def test_models_are_found_in_every_field_that_may_select_one(dialect, fields, expected):
    """Fault W5."""
    assert found(dialect, fields) == expected


def test_schemas_and_messages_of_the_client_select_no_model():
    schema = {"type": "object", "properties": {"model": {"enum": ["a"], "type": "string"}}}
    tools = [{"name": "buy", "input_schema": schema}]
    format_ = {"type": "json_schema", "schema": schema}
    assert found("anthropic", {"tools": tools, "output_config": {"format": format_}}) == []
    tools = [{"type": "function", "function": {"name": "buy", "parameters": schema}}]
    format_ = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert found("openai", {"tools": tools, "response_format": format_}) == []


def test_both_values_of_a_repeated_name_are_found():
    text = Raw(b'{"models":["a"],"models":["b"]}')
    assert {name for _, name in named_models({"extra_body": text})} == {"a", "b"}


def test_numbers_and_half_characters_of_any_size_are_read():
    text = Raw(b'{"n":' + b"9" * 10_000 + b',"e":1e999,"s":"\\ud800","model":"a"}')
    assert list(named_models({"extra_body": text})) == [("extra_body.model", "a")]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["Model", "MODELS", "Fallbacks", "Messages", "TOOLS", "ſtream"])
def test_a_known_name_in_another_case_is_refused(dialect, name):
    """Fault W5: an upstream that ignores case would take it for the known field."""
    with pytest.raises(ClientError, match="is not a field: the name is") as caught:
        found(dialect, {name: "a"})
    assert caught.value.path == name


@pytest.mark.parametrize(
    "names",
    [
        '"type": "advisor_20260301", "type": "function"',
        '"type": "advisor_20260301", "typ\\u0065": "function"',
        '"type": "function", "Type": "advisor_20260301"',
    ],
)
def test_a_tool_with_two_types_is_refused(names):
    """Fault W5: an upstream whose JSON reader takes the other one would see a server tool."""
    tool = f'{{{names}, "model": "a", "name": "f", "input_schema": {{}}}}'
    with pytest.raises(ClientError, match="repeats a name") as caught:
        list(named_models({"tools": Raw(f"[{tool}]".encode())}))
    assert caught.value.path == "tools.0"


@pytest.mark.parametrize("item", [b"1,", b"[],", b'{"":""},', b'{"model":[]},'])
@pytest.mark.parametrize("name", ["x", "models", "tools"])
def test_large_fields_are_refused_before_they_are_searched(name, item):
    """Fault W5: the search of one field blocked the event loop for seconds, and took gigabytes."""
    inner = b"[%b1]" % (item * (70_000 // len(item)))
    field = b'[{"type":"advisor","x":%b}]' % inner if name == "tools" else inner
    with pytest.raises(ClientError, match="is too large to look for models in it") as caught:
        list(named_models({name: Raw(field)}))
    assert caught.value.path == ("tools.0" if name == "tools" else name)


def test_several_fields_count_together():
    half = Raw(b'"%b"' % (b"x" * 40_000))
    assert list(named_models({"x": half})) == []
    with pytest.raises(ClientError, match="is too large"):
        list(named_models({"x": half, "y": half}))


def test_the_search_takes_little_memory_below_a_long_name():
    text = Raw(b'{"%b": [%b"m"], "model": "a"}' % (b"n" * 30_000, b"[]," * 10_000))
    tracemalloc.start()
    try:
        assert list(named_models({"x": text})) == [("x.model", "a")]
        assert tracemalloc.get_traced_memory()[1] < 10 * 1024 * 1024
    finally:
        tracemalloc.stop()
