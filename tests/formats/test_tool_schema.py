"""Schemas of tools without arguments: repaired for the upstream, in every direction, and only those."""

import json

import pytest

from formats import DIALECTS, NoticeCode, Target

# A schema as a client writes it → for an OpenAI-like upstream → for Anthropic. None: unchanged.
SAME = "as for OpenAI"
EMPTY = '{"type":"object","properties":{}}'
CASES = [
    ("{}", EMPTY, '{"type":"object"}'),
    ('{"type":"object"}', EMPTY, None),
    ('{"type": null }', '{"type": "object" ,"properties":{}}', '{"type": "object" }'),
    ('{"properties":{"a":{}}}', '{"properties":{"a":{}},"type":"object"}', SAME),
    ('{"type":"object","properties":null}', EMPTY, EMPTY),
    ('{"type":["object","null"],"properties":{}}', EMPTY, EMPTY),
    (
        '{"anyOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{},"b":{}}}',
        '{"anyOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{},"b":{}},"type":"object"}',
        SAME,
    ),
    ('{"type":"object",  "properties":{"n":{"maximum":1.50}}}', None, None),
    ('{"type":"string","properties":{}}', None, None),
]
SHAPES = {
    "anthropic": '"tools":[{"name":"f", "input_schema":%s},{"name":"g","input_schema":{"type":"object","properties":{} }}]',
    "openai": '"tools":[{"type":"function", "function":{"name":"f", "parameters":%s}},'
    '{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{} }}}]',
    "functions": '"functions":[{"name":"f", "parameters":%s}]',
}


def request_of(shape, schema, more=""):
    tools = SHAPES[shape] % schema
    messages = '"messages":[{"role":"user","content":"Hi"}]'
    return f'{{"model":"m", "max_tokens":9,{messages}, {tools}{more},"stream":true}}'.encode()


def render(client, upstream, body, target=None):
    return DIALECTS[upstream].render(DIALECTS[client].parse(body), target or Target())


def schema_in(document):
    if functions := document.get("functions"):
        return functions[0]["parameters"]
    first = document["tools"][0]
    return first.get("input_schema") or first["function"]["parameters"]


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("schema", "for_openai", "for_anthropic"), CASES)
def test_schemas_are_repaired_for_the_upstream(shape, upstream, schema, for_openai, for_anthropic):
    """Fault T1: one MCP tool without arguments failed every request of a client."""
    wanted = for_openai if upstream == "openai" or for_anthropic == SAME else for_anthropic
    wanted = wanted or schema
    client = "anthropic" if shape == "anthropic" else "openai"
    rendered = render(client, upstream, request_of(shape, schema))
    assert schema_in(json.loads(rendered.body)) == json.loads(wanted)
    repairs = [n.detail for n in rendered.notices if n.code is NoticeCode.SCHEMA_REPAIRED]
    assert repairs == (["f"] if wanted != schema else [])


@pytest.mark.parametrize("shape", SHAPES)
def test_a_repair_leaves_every_other_byte_of_a_relayed_request(shape):
    """Fault T1."""
    dialect = "anthropic" if shape == "anthropic" else "openai"
    more = ', "unknown" : 1.50, "stream_options":{"include_usage":true}'
    for schema, wanted in [
        ('{"type" : null}', '{"type" : "object"'),
        ('{"a":1.0}', '{"a":1.0,"type":"object"'),
    ]:
        wanted += "}" if dialect == "anthropic" else ',"properties":{}}'
        rendered = render(dialect, dialect, request_of(shape, schema, more))
        assert rendered.body == request_of(shape, wanted, more)
        again = render(dialect, dialect, rendered.body)
        assert (again.body, again.notices) == (rendered.body, ())


def test_a_strict_function_without_properties_allows_no_others():
    body = request_of("openai", '{"type":"object"},"strict":true')
    wanted = {"type": "object", "properties": {}, "additionalProperties": False}
    for upstream_body in (
        render("openai", "openai", body).body,
        render("openai", "openai", body.replace(b'"user"', b'"developer"')).body,
    ):
        assert schema_in(json.loads(upstream_body)) == wanted


def test_a_function_without_parameters_stays_as_it_is():
    body = (
        request_of("functions", "{}")
        .replace(b', "parameters":{}', b"")
        .replace(b'"max_tokens"', b'"stream_options":{"include_usage":true},"max_tokens"')
    )
    assert render("openai", "openai", body).body == body


def test_the_same_tools_render_to_the_same_bytes_with_every_turn():
    first, second = [
        render("anthropic", "openai", request_of("anthropic", "{}").replace(b"Hi", text)).body
        for text in (b"Hi", b"Bye")
    ]
    assert first.replace(b"Hi", b"Bye") == second
