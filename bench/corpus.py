"""Answers whose translation is counted: text, native calls and arguments, as bytes.

They are not made by the mock upstream, because counting must not need a compiler. Each answer
exists in both dialects, as a list of events, to be fed in bulk or one by one.
"""

import json
from collections.abc import Callable, Iterator, Mapping

from formats import AUTO, Tool, Toolbox
from tests.support.operator_formats import OPERATOR_CALLS

SENTENCE = 'The quick brown fox jumps over the lazy dog;\n"quoted" text, a back\\slash, a café. '
TEXT_PIECE = 12
NATIVE_PIECE = 7
ARGUMENTS = '{"file_path": "/home/user/project/src/file_name.py", "offset": 120, "limit": 400}'
ENVELOPE = f'{{"name": "Read", "arguments": {ARGUMENTS}}}'
NATIVE_CALLS = {
    # Without a native format, markup gives a notice and stays unchanged.
    "standard": "<|tool_calls_section_begin|><|tool_call_begin|>functions.Read:0"
    f"<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>",
    "auto": '<function_calls>\n<invoke name="Read">\n<parameter name="file_path">'
    '/home/user/project/file.py</parameter>\n<parameter name="offset">120</parameter>\n</invoke>\n'
    "</function_calls>",
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.Read:0"
    f"<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>",
    "qwen": "<tool_call>\n<function=Read>\n<parameter=file_path>\n/home/user/project/file_name.py\n"
    "</parameter>\n<parameter=offset>\n120\n</parameter>\n</function>\n</tool_call>",
    "minimax": '<minimax:tool_call>\n<invoke name="Read">\n<parameter name="file_path">'
    '/home/user/project/file.py</parameter>\n<parameter name="offset">120</parameter>\n</invoke>\n'
    "</minimax:tool_call>",
    "seed": "<seed:tool_call>\n<function=Read>\n<parameter=file_path>/home/user/project/file.py"
    "</parameter>\n<parameter=offset>120</parameter>\n</function>\n</seed:tool_call>",
    "step": "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
    '<steptml:invoke name="Read"><steptml:parameter name="file_path">/home/user/project/file.py'
    "</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
    "glm": "<tool_call>Read\n<arg_key>file_path</arg_key>\n<arg_value>/home/user/project/file.py"
    "</arg_value>\n<arg_key>offset</arg_key>\n<arg_value>120</arg_value>\n</tool_call>",
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>Read\n```json\n"
    f"{ARGUMENTS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "cohere": '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "Read", "parameters": '
    f"{ARGUMENTS}}}]<|END_ACTION|>",
    "gemma": '<|tool_call>call:Read{file_path:<|"|>/home/user/project/file_name.py<|"|>,'
    "offset:120,limit:400}<tool_call|>",
    "lfm": "<|tool_call_start|>[Read(file_path='/home/user/project/file_name.py', offset=120)]"
    "<|tool_call_end|>",
    "llama": f'<|python_tag|>{{"name": "Read", "parameters": {ARGUMENTS}}}',
    "harmony": "<|start|>assistant<|channel|>commentary to=functions.Read <|constrain|>json"
    f"<|message|>{ARGUMENTS}<|call|>",
    "ernie": f"<tool_call>\n{ENVELOPE}\n</tool_call>",
    "granite": f"<|tool_call|>[{ENVELOPE}]",
    "hunyuan": f"<tool_calls>[{ENVELOPE}]</tool_calls>",
    "internlm": f"<|action_start|><|plugin|>\n{ENVELOPE}<|action_end|>",
    "jamba": f"<tool_calls>[\n{ENVELOPE}\n]</tool_calls>",
    "longcat": f"<longcat_tool_call>\n{ENVELOPE}\n</longcat_tool_call>",
    "mistral": f"[TOOL_CALLS]Read[ARGS]{ARGUMENTS}",
    "nemotron": f"<TOOLCALL>[{ENVELOPE}]</TOOLCALL>",
    "phi": f"functools[{ENVELOPE}]",
    **{name: call.format(name="Read", json=ARGUMENTS) for name, call in OPERATOR_CALLS.items()},
}
"""By format, two of an operator among them, a call as models write it into text."""


def tools_for(format_name: str) -> Toolbox:
    """Declare the tool for `auto`, which reads no other calls."""
    return Toolbox([Tool("Read", None, b"{}")] if format_name == AUTO else [])


def chunk(delta: Mapping[str, object], finish: str | None = None) -> bytes:
    payload = {
        "id": "chatcmpl-0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "moonshotai/kimi-k2.5",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}],
    }
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def answer(*deltas: Mapping[str, object]) -> list[bytes]:
    chunks = [chunk({"role": "assistant", "content": ""}), *map(chunk, deltas)]
    return [*chunks, chunk({}, "stop"), b"data: [DONE]\n\n"]


def argument_deltas(count: int) -> list[Mapping[str, object]]:
    """A structured call with one argument in `count` pieces of ten characters."""
    pieces = ['{"content": "', *["ten chars " for _ in range(count - 2)], '"}']
    function = {"name": "Write", "arguments": ""}
    first = {"index": 0, "id": "call_1", "type": "function", "function": function}
    later = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    return [{"tool_calls": [entry]} for entry in (first, *later)]


def pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def running_text(chunks: int) -> list[str]:
    repeats = chunks * TEXT_PIECE // len(SENTENCE) + 1
    return pieces(SENTENCE * repeats, TEXT_PIECE)[:chunks]


def _event(data: Mapping[str, object]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def _message(block: Mapping[str, object], deltas: Iterator[Mapping[str, object]]) -> list[bytes]:
    """An Anthropic answer with one block."""
    usage = {"input_tokens": 15_012, "output_tokens": 1}
    message: dict[str, object] = {
        "id": "msg_0123456789abcdef",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    stop_reason = "tool_use" if block["type"] == "tool_use" else "end_turn"
    return [
        _event({"type": "message_start", "message": message}),
        _event({"type": "content_block_start", "index": 0, "content_block": block}),
        *(_event({"type": "content_block_delta", "index": 0, "delta": delta}) for delta in deltas),
        _event({"type": "content_block_stop", "index": 0}),
        _event(
            {
                "type": "message_delta",
                "delta": {"stop_reason": stop_reason, "stop_sequence": None},
                "usage": {"output_tokens": 380},
            }
        ),
        _event({"type": "message_stop"}),
    ]


def text_answer(dialect: str, parts: list[str]) -> list[bytes]:
    if dialect == "openai":
        return answer(*({"content": part} for part in parts))
    deltas = ({"type": "text_delta", "text": part} for part in parts)
    return _message({"type": "text", "text": ""}, deltas)


def argument_answer(dialect: str, deltas: int) -> list[bytes]:
    """A structured call with arguments in `deltas` deltas."""
    if dialect == "openai":
        return answer(*argument_deltas(deltas))
    parts = ['{"content": "', *["ten chars " for _ in range(deltas - 2)], '"}']
    block = {"type": "tool_use", "id": "toolu_0123456789abcdef", "name": "Write", "input": {}}
    return _message(block, ({"type": "input_json_delta", "partial_json": part} for part in parts))


Answer = Callable[[str, str, int], list[bytes]]
"""A function of dialect, format and scale that returns events."""

ANSWERS: dict[str, Answer] = {
    "text": lambda dialect, _, scale: text_answer(dialect, running_text(100 * scale)),
    "native calls": lambda dialect, name, scale: text_answer(
        dialect, pieces("I will read it. " + NATIVE_CALLS[name] * 2 * scale, NATIVE_PIECE)
    ),
    "arguments": lambda dialect, _, scale: argument_answer(dialect, 100 * scale),
}
