"""Answers of an upstream to the upstream test."""

CANARY = "sk-or-v1-canary-of-the-probe"
TOOL_CALL = '<|tool_calls_section_begin|><|tool_call_begin|>functions.report_health:0<|tool_call_argument_begin|>{"state": "good"}<|tool_call_end|><|tool_calls_section_end|>'
MODELS = {"data": [{"id": "moonshotai/kimi-probed"}, {"id": "house/plain"}]}
