"""JSON that is too deep or too large, and bodies that are not JSON at all."""

import json

import pytest

from tests.support.chat import ask, error_of, says
from tests.support.wire import nested


def placed(client, body):
    status, kind, message = error_of(client.post("/v1/messages", content=body))
    assert (status, kind) == (400, "invalid_request_error")
    assert len(message) < 200
    return message


NOT_JSON = {
    "nothing": (b"", "the body is empty"),
    "cut": (b'{"model": "m",\n  "messages": [', "line 2, column 16"),
    "a comma too many": (b'{"model": "m",\n\n }', "line 3, column 2"),
    "after a character of two bytes": ('{"ä": x}'.encode(), "line 1, column 7"),
    "NaN": (b'{"temperature": NaN}', "line 1, column 17"),
    "Infinity": (b'{"temperature": -Infinity}', "line 1, column 18"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "line 1, column 1"),
    "half a pair": (b'{"model": "\\ud800 and more"}', "line 1, column 18"),
    "the other half": (b'{"model": "\\udc00 and more"}', "line 1, column 18"),
    "a line break in a string": (b'{"model": "a\nb"}', "line 1, column 13"),
    "something after it": (b'{"model": "m"} {}', "(line 1, column 1"),
    "UTF-16": ('{"model": "m"}'.encode("utf-16"), "UTF-8"),
    "Latin-1": (b'{"model": "\xe4"}', "UTF-8"),
    "a list": (b"[]", "`object`"),
    "a string": (b'"' + b"x" * 5000 + b'"', "`object`"),
}


@pytest.mark.parametrize(("body", "place"), NOT_JSON.values(), ids=NOT_JSON)
def test_a_body_that_is_not_a_json_object_is_400_and_names_the_place(client, body, place):
    assert place in placed(client, body)


TOO_COMPLEX = {
    "depth": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "depth of lists": b'{"metadata": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a schema's depth": b'{"tools": [{"input_schema": ' + nested(130) + b"}]}",
    "keys": b'{"x": {' + b",".join(b'"%d":1' % n for n in range(1_000_000)) + b"}}",
}


@pytest.mark.parametrize("body", TOO_COMPLEX.values(), ids=TOO_COMPLEX)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_json_that_is_too_complex_is_400_with_its_own_code(client, body, path):
    response = client.post(path, content=body)
    assert error_of(response)[:2] == (400, "invalid_request_error")
    assert response.headers["x-athena-error"] == "json_too_complex"
    assert response.headers["x-should-retry"] == "false"


NUMBERS = {
    "max_tokens of 5,000 digits": b'"max_tokens": ' + b"9" * 5000,
    "a temperature that no float holds": b'"temperature": 1e400',
    "a temperature of 5,000 digits": b'"temperature": ' + b"9" * 5000,
}


@pytest.mark.parametrize("field", NUMBERS.values(), ids=NUMBERS)
def test_a_number_out_of_range_is_400_and_names_the_place(client, model, field):
    body = json.dumps(ask(model)).encode()[:-1] + b", " + field + b"}"
    assert field.split(b'"')[1].decode() in placed(client, body)


def test_numbers_in_forwarded_fields_are_not_parsed(client, upstream, model):
    """A tool's default may be any number: it reaches the upstream unchanged."""
    script = upstream.script(model, says("Hi"))
    number = b"9" * 4000  # the most digits that the scripted upstream can parse
    schema = b'{"type": "object", "properties": {"a": {"maximum": 1e400, "default": %b}}}' % number
    tools = b'"tools": [{"name": "f", "input_schema": %b}]' % schema
    body = json.dumps(ask(model)).encode()[:-1] + b", " + tools + b"}"
    assert client.post("/v1/messages", content=body).status_code == 200
    assert number in script.last.body
    assert b"1e400" in script.last.body


def test_of_duplicate_model_fields_the_last_is_checked_and_sent(gateway, upstream, model):
    """The value that is checked against the key is the one that the upstream gets."""
    script = upstream.script(model, says("Hi"))
    gateway.edit(
        f"k = ClientKey(label='one', allowed_models=[{model!r}]); k.adopt('sk-athena-of-one'); k.save()"
    )
    messages = json.dumps(ask(model)["messages"])
    with gateway.client(**{"x-api-key": "sk-athena-of-one"}) as client:
        for names, status in (([model, "claude-opus"], 403), (["claude-opus", model], 200)):
            models = ", ".join(f'"model": "{name}"' for name in names)
            body = f'{{"max_tokens": 5, "messages": {messages}, {models}}}'
            assert client.post("/v1/messages", content=body).status_code == status
    assert [request.json["model"] for request in script.requests] == [model]


def test_the_operator_can_change_the_limits(gateway, client, upstream, model):
    upstream.script(model, says("Hi"))
    body = ask(model, metadata=json.loads(nested(40)))
    edit = "s = GatewaySettings.objects.get(); s.max_json_depth = {}; s.save()"
    assert client.post("/v1/messages", json=body).status_code == 200
    gateway.edit(edit.format(30))
    try:
        refused = client.post("/v1/messages", json=body)
        assert "more than 30 levels" in error_of(refused)[2]
        row = gateway.exchange(refused)
        assert (row["outcome"], row["error_code"]) == ("client_error", "json_too_complex")
    finally:
        gateway.edit(edit.format(128))
