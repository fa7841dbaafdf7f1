"""Answers of models that write their tool calls into the text, one for each native format."""

import json

CALL = {"harbor": "Moss", "days": 3}
_JSON = json.dumps(CALL)
NATIVE = {
    "moonshotai/kimi-k2.5": f"<|tool_calls_section_begin|><|tool_call_begin|>functions.get_tide:0<|tool_call_argument_begin|>{_JSON}<|tool_call_end|><|tool_calls_section_end|>",
    "qwen/qwen3-coder": "<tool_call>\n<function=get_tide>\n<parameter=harbor>\nMoss\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
    "qwen/qwen3-max": f'<tool_call>\n{{"name": "get_tide", "arguments": {_JSON}}}\n</tool_call>',
    "deepseek/deepseek-v3.1": f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_tide<｜tool▁sep｜>{_JSON}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
}
KIMI_CALL = '<|tool_calls_section_begin|><|tool_call_begin|>functions.get_tide:0<|tool_call_argument_begin|>{"harbor":"Moss"}<|tool_call_end|><|tool_calls_section_end|>'
