"""Fields that select a model: names in another case are refused, and every named model is found."""

import json

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
