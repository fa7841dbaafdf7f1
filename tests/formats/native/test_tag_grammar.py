"""Calls in tags: of Qwen3-Coder, and DSML of DeepSeek."""

import json

import pytest

from formats import Tool, Toolbox
from tests.support.wire import reply_from, stream

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
TOOLS = Toolbox([Tool("f", None, json.dumps(SCHEMA).encode())])


def coder(*parameters: tuple[str, str]) -> str:
    """A call of f as Qwen3-Coder writes it."""
    written = [f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters]
    return f"<tool_call>\n<function=f>\n{''.join(written)}</function>\n</tool_call>"


def dsml(*parameters: tuple[str, str], string: str = "false") -> str:
    """A call of f as DeepSeek V3.2 writes it."""
    written = [
        f'<｜DSML｜parameter name="{key}" string="{string}">{value}</｜DSML｜parameter>\n'
        for key, value in parameters
    ]
    return (
        f'<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n{"".join(written)}'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>"
    )


FORMS = [("qwen", coder), ("deepseek", dsml)]


@pytest.mark.parametrize(("format_name", "write"), FORMS)
def test_t5_null_in_capitals_is_null_where_no_string_is_allowed(format_name, write):
    """T5"""
    reply = reply_from(
        stream({"content": write(("x", "NULL"))}), format_name=format_name, tools=TOOLS
    )
    assert [part.arguments for part in reply.parts] == [b'{"x": null}']
