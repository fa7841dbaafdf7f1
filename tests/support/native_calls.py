"""Calls in the text of models of every native format, and text that resembles them."""

import json
import re
from itertools import chain
from pathlib import Path

from hypothesis import strategies as st

from formats import AUTO, DIALECTS, FORMATS, Event, Tool, Toolbox
from tests.support.native_vectors import IN_TEXT
from tests.support.operator_formats import OPERATOR_CALLS, OPERATOR_FORMATS
from tests.support.wire import OPTIONS

_CHAT = Path(__file__).parents[1] / "fixtures/chat"
KIMI_LOG = (_CHAT / "kimi-calls-in-reasoning-token-by-token.sse").read_bytes()
"""A recorded stream that has each token of two calls in a chunk of its own."""


NATIVE = [*(name for name, native in FORMATS.items() if native), *OPERATOR_FORMATS]

_TEXTS: dict[str, list[str]] = {name: [] for name in FORMATS}
for _name, _definition in OPERATOR_FORMATS.items():
    _TEXTS[_name] = [_definition.sample]
for _vector in IN_TEXT:
    if len(_vector["text"]) < 1000:
        _TEXTS[_vector["format"]].append(_vector["text"])


def _garbage(texts: list[str]) -> st.SearchStrategy[str]:
    """Hostile text, made of the fragments of these texts."""
    shard = re.compile(r"<[^<>]{1,40}>|⟦[^⟦⟧]{1,20}⟧|\[/?[A-Z_]+\]|✿\w+✿:?|[{}\[\]\",:`]|\w+|\s+")
    shards = sorted({found for text in texts for found in shard.findall(text)})
    return st.lists(st.sampled_from(shards), max_size=30).map("".join)


TOOLS = Toolbox(
    Tool(name, None, b'{"type":"object","properties":{"a":{"type":"integer"},"b":{}}}')
    for name in ("ping", "ferry_times")
)

_ENVELOPE = '{{"name": "{name}", "arguments": {json}}}'
CALLS = {
    AUTO: '<function_calls>\n<invoke name="{name}">\n{json}\n</invoke>\n</function_calls>',
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{json}"
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "cohere": '<|START_ACTION|>[{{"tool_name": "{name}", "parameters": {json}}}]<|END_ACTION|>',
    "gemma": "<|tool_call>call:{name}{gemma}<tool_call|>",
    "harmony": "<|start|>assistant<|channel|>commentary to=functions.{name} <|constrain|>json"
    "<|message|>{json}<|call|>",
    "ernie": f"<tool_call>\n{_ENVELOPE}\n</tool_call>",
    "glm": "<tool_call>{name}\n{json}\n</tool_call>",
    "granite": f"<|tool_call|>[{_ENVELOPE}]",
    "hunyuan": f"<tool_calls>[{_ENVELOPE}]</tool_calls>",
    "internlm": f"<|action_start|><|plugin|>\n{_ENVELOPE}<|action_end|>",
    "jamba": f"<tool_calls>[\n{_ENVELOPE}\n]</tool_calls>",
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.{name}:0"
    "<|tool_call_argument_begin|>{json}<|tool_call_end|><|tool_calls_section_end|>",
    "lfm": '<|tool_call_start|>[{{"name": "{name}", "arguments": {json}}}]<|tool_call_end|>',
    "llama": '<|python_tag|>{{"name": "{name}", "parameters": {json}}}',
    "longcat": f"<longcat_tool_call>\n{_ENVELOPE}\n</longcat_tool_call>",
    "minimax": '<minimax:tool_call>\n<invoke name="{name}">\n{json}\n</invoke>\n'
    "</minimax:tool_call>",
    "seed": "<seed:tool_call>\n<function={name}>\n{json}\n</function>\n</seed:tool_call>",
    "step": "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
    '<steptml:invoke name="{name}">{json}</steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>',
    "mistral": "[TOOL_CALLS]{name}[ARGS]{json}",
    "nemotron": f"<TOOLCALL>[{_ENVELOPE}]</TOOLCALL>",
    "phi": f"functools[{_ENVELOPE}]",
    "qwen": f"<tool_call>\n{_ENVELOPE}\n</tool_call>",
    **OPERATOR_CALLS,
}


def tools_for(format_name: str, name: str) -> Toolbox:
    """Declare the tool for `auto`, which reads no other calls."""
    return Toolbox([Tool(name, None, b"{}")] if format_name == AUTO else [])


def write_call(format_name: str, name: str, given_arguments: object) -> str:
    """A call as a model of the format writes it."""
    written = {"json": json.dumps(given_arguments), "gemma": _write_gemma(given_arguments)}
    return CALLS[format_name].format(name=name, **written)


def _write_gemma(value: object) -> str:
    match value:
        case str():
            return f'<|"|>{value}<|"|>'
        case dict():
            items = (f"{_write_gemma(key)}:{_write_gemma(item)}" for key, item in value.items())
            return "{" + ",".join(items) + "}"
        case list():
            return "[" + ",".join(map(_write_gemma, value)) + "]"
    return json.dumps(value)


def encoded(events: list[Event], dialect: str) -> bytes:
    return DIALECTS[dialect].encoder(OPTIONS).feed(events)


def _written_by(format_name: str) -> st.SearchStrategy[tuple[str, list[str]]]:
    """Texts that resemble calls of the format, and some of other formats."""
    texts = garbage | whole
    if format_name in CALLS:
        own = [*_TEXTS[format_name], write_call(format_name, "ping", {"a": 1, "b": ["<", "é"]})]
        texts = _garbage(own) | st.sampled_from(own) | texts
    return st.tuples(st.just(format_name), st.lists(texts, min_size=1, max_size=3))


format_names = st.sampled_from([*FORMATS, *OPERATOR_FORMATS])
native_names = st.sampled_from(NATIVE)
garbage = _garbage(list(chain(*_TEXTS.values())))
whole = st.sampled_from(list(chain(*_TEXTS.values())))
answers = st.one_of([_written_by(name) for name in _TEXTS])
"""The name of a format, and the texts of an answer that is read as this format."""
