"""Writes turns as models do: text and tool calls in a family's native format, as OpenAI deltas.

Implemented from the descriptions of the formats, independent of the gateway's tables, so that a
mistake in one shows in the other. Call ids restart in every turn, as with many models; Claude Code
drops calls whose ids it has seen before, so the gateway must replace them.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from random import Random
from typing import Any, TypeAlias

Delta: TypeAlias = dict[str, Any]

M3 = "]<]minimax[>["

REASONING = "The next step is clear: <go> on…\n"


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model: text, then tool calls."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    unless: str = ""
    """Skip this turn if the conversation contains this text."""
    thinks: int = 0
    """Tokens of thinking before the answer, which the model cannot stop."""
    prompt_tokens: int | None = None
    """The reported size of the request; None: a quarter of its bytes."""
    fails: tuple[int, ...] = ()
    """Statuses of the first attempts; 200 is a stream that breaks off half-way."""


@dataclass(frozen=True, slots=True)
class Style:
    """A model and its way to write calls; `write` is None for structured calls."""

    model: str
    write: Callable[[Sequence[Call]], str] | None
    channel: str = "content"
    """The delta field that the calls are written into."""

    def visible_text(self, turn: Turn) -> str:
        """Return the turn's text in `content`; none if the calls are inside the reasoning."""
        return turn.text if self.channel == "content" or not turn.calls else ""


def deltas(style: Style, turn: Turn) -> Iterator[Delta]:
    """Yield the turn in small pieces."""
    yield {"role": "assistant", "content": ""}
    reasoning_field = "reasoning_content" if style.channel == "content" else style.channel
    yield from _pieces(reasoning_field, REASONING)
    yield from _pieces("content", style.visible_text(turn))
    if not turn.calls:
        return
    if style.write is None:
        yield from _structured(turn.calls)
    else:
        yield from _pieces(style.channel, style.write(turn.calls))


def write_kimi(calls: Sequence[Call]) -> str:
    written = "".join(
        f"<|tool_call_begin|>functions.{call.name}:{number}<|tool_call_argument_begin|>"
        f"{_json(call.arguments)}<|tool_call_end|>"
        for number, call in enumerate(calls)
    )
    return f"<|tool_calls_section_begin|>{written}<|tool_calls_section_end|>"


def write_k3(calls: Sequence[Call]) -> str:
    written = "".join(
        f'<|open|>call tool="{call.name}" index="{number}"<|sep|>'
        + "".join(_k3_argument(key, value) for key, value in call.arguments.items())
        + "<|close|>call<|sep|>"
        for number, call in enumerate(calls, 1)
    )
    return f"<|open|>tools<|sep|>{written}<|close|>tools<|sep|><|close|>message<|sep|>"


def _k3_argument(key: str, value: object) -> str:
    kind = "string" if isinstance(value, str) else "object" if isinstance(value, dict) else "number"
    return (
        f'<|open|>argument key="{key}" type="{kind}"<|sep|>{_text(value)}<|close|>argument<|sep|>'
    )


def write_qwen_coder(calls: Sequence[Call]) -> str:
    return "".join(
        f"\n<tool_call>\n<function={call.name}>\n"
        + "".join(f"<parameter={k}>\n{_text(v)}\n</parameter>\n" for k, v in call.arguments.items())
        + "</function>\n</tool_call>"
        for call in calls
    )


def write_hermes(calls: Sequence[Call]) -> str:
    return "".join(f"\n<tool_call>\n{_envelope(call)}\n</tool_call>" for call in calls)


def _envelope(call: Call) -> str:
    return _json({"name": call.name, "arguments": call.arguments})


def _array(calls: Sequence[Call]) -> str:
    return f"[{', '.join(map(_envelope, calls))}]"


def write_mistral(calls: Sequence[Call]) -> str:
    return "".join(f"[TOOL_CALLS]{call.name}[ARGS]{_json(call.arguments)}" for call in calls)


def write_mistral_array(calls: Sequence[Call]) -> str:
    return f"[TOOL_CALLS] {_array(calls)}</s>"


def write_phi(calls: Sequence[Call]) -> str:
    return f"functools{_array(calls)}"


def write_tool_calls(calls: Sequence[Call]) -> str:
    return f"<tool_calls>{_array(calls)}</tool_calls>"


def write_nemotron(calls: Sequence[Call]) -> str:
    return f"<TOOLCALL>{_array(calls)}</TOOLCALL>"


def write_granite(calls: Sequence[Call]) -> str:
    return f"<|tool_call|>{_array(calls)}"


def write_granite_20b(calls: Sequence[Call]) -> str:
    return " ".join(f"<function_call> {_envelope(call)}" for call in calls)


def write_internlm(calls: Sequence[Call]) -> str:
    return "".join(f"<|action_start|><|plugin|>\n{_envelope(call)}<|action_end|>" for call in calls)


def write_longcat(calls: Sequence[Call]) -> str:
    return "".join(
        f"\n<longcat_tool_call>\n{_envelope(call)}\n</longcat_tool_call>" for call in calls
    )


def write_deepseek_v31(calls: Sequence[Call]) -> str:
    written = "".join(
        f"<｜tool▁call▁begin｜>{call.name}<｜tool▁sep｜>{_json(call.arguments)}<｜tool▁call▁end｜>"
        for call in calls
    )
    return f"<｜tool▁calls▁begin｜>{written}<｜tool▁calls▁end｜>"


def write_dsml(calls: Sequence[Call]) -> str:
    written = "".join(
        f'<｜DSML｜invoke name="{call.name}">\n'
        + "".join(_dsml_parameter(key, value) for key, value in call.arguments.items())
        + "</｜DSML｜invoke>\n"
        for call in calls
    )
    return f"\n\n<｜DSML｜function_calls>\n{written}</｜DSML｜function_calls>"


def write_glm(calls: Sequence[Call]) -> str:
    return "".join(
        f"\n<tool_call>{call.name}\n"
        + "".join(
            f"<arg_key>{key}</arg_key>\n<arg_value>{_text(value)}</arg_value>\n"
            for key, value in call.arguments.items()
        )
        + "</tool_call>"
        for call in calls
    )


def write_minimax_m2(calls: Sequence[Call]) -> str:
    return f"\n<minimax:tool_call>\n{_invokes(calls)}</minimax:tool_call>"


def write_anthropic(calls: Sequence[Call]) -> str:
    return f"\n<function_calls>\n{_invokes(calls)}</function_calls>"


def _invokes(calls: Sequence[Call], prefix: str = "") -> str:
    return "".join(
        f'<{prefix}invoke name="{call.name}">\n'
        + "".join(
            f'<{prefix}parameter name="{key}">{_text(value)}</{prefix}parameter>\n'
            for key, value in call.arguments.items()
        )
        + f"</{prefix}invoke>\n"
        for call in calls
    )


def write_minimax_m3(calls: Sequence[Call]) -> str:
    written = "".join(
        f'{M3}<invoke name="{call.name}">\n'
        + "".join(_element(key, value) + "\n" for key, value in call.arguments.items())
        + f"{M3}</invoke>\n"
        for call in calls
    )
    return f"\n{M3}<tool_call>\n{written}{M3}</tool_call>"


def _element(key: str, value: object) -> str:
    match value:
        case dict():
            written = "".join(_element(k, v) for k, v in value.items())
        case list():
            written = "".join(_element("item", v) for v in value)
        case _:
            written = _text(value)
    return f"{M3}<{key}>{written}{M3}</{key}>"


def write_hy3(calls: Sequence[Call]) -> str:
    written = "".join(
        f"<tool_call:opensource>{call.name}<tool_sep:opensource>"
        + "".join(
            f"<arg_key:opensource>{key}</arg_key:opensource>"
            f"<arg_value:opensource>{_text(value)}</arg_value:opensource>"
            for key, value in call.arguments.items()
        )
        + "</tool_call:opensource>"
        for call in calls
    )
    return f"<tool_calls:opensource>{written}</tool_calls:opensource>"


def write_seed(calls: Sequence[Call]) -> str:
    return "".join(
        f"\n<seed:tool_call>\n<function={call.name}>\n"
        + "".join(f"<parameter={k}>{_text(v)}</parameter>\n" for k, v in call.arguments.items())
        + "</function>\n</seed:tool_call>"
        for call in calls
    )


def write_step(calls: Sequence[Call]) -> str:
    written = "".join(
        f"<｜tool_call_begin｜>function<｜tool_sep｜>{_invokes([call], 'steptml:')}<｜tool_call_end｜>"
        for call in calls
    )
    return f"<｜tool_calls_begin｜>{written}<｜tool_calls_end｜>"


def _dsml_parameter(key: str, value: object) -> str:
    is_string = "true" if isinstance(value, str) else "false"
    return (
        f'<｜DSML｜parameter name="{key}" string="{is_string}">{_text(value)}</｜DSML｜parameter>\n'
    )


def write_cohere(calls: Sequence[Call]) -> str:
    actions = [
        {"tool_call_id": str(number), "tool_name": call.name, "parameters": call.arguments}
        for number, call in enumerate(calls)
    ]
    return f"<|START_ACTION|>{_json(actions)}<|END_ACTION|>"


def write_gemma(calls: Sequence[Call]) -> str:
    return "".join(
        f"<|tool_call>call:{call.name}{_gemma(call.arguments)}<tool_call|>" for call in calls
    )


def _gemma(value: object) -> str:
    match value:
        case str():
            return f'<|"|>{value}<|"|>'
        case dict():
            return "{" + ",".join(f"{key}:{_gemma(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_gemma, value)) + "]"
    return _json(value)


def write_harmony(calls: Sequence[Call]) -> str:
    return "".join(
        f"<|start|>assistant<|channel|>commentary to=functions.{call.name} <|constrain|>json"
        f"<|message|>{_json(call.arguments)}<|call|>"
        for call in calls
    )


def write_llama_json(calls: Sequence[Call]) -> str:
    return "<|python_tag|>" + "; ".join(
        _json({"name": call.name, "parameters": call.arguments}) for call in calls
    )


def write_python(calls: Sequence[Call]) -> str:
    """Write a list of calls with Python's literals, as Llama 4 and LFM2 do."""
    written = ", ".join(
        f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})"
        for call in calls
    )
    return f"[{written}]"


def write_lfm(calls: Sequence[Call]) -> str:
    return f"<|tool_call_start|>{write_python(calls)}<|tool_call_end|>"


def _structured(calls: Sequence[Call]) -> Iterator[Delta]:
    """Yield the name of each call, then pieces of all their arguments in rotation."""
    for index, call in enumerate(calls):
        function = {"name": call.name, "arguments": ""}
        entry = {
            "id": f"functions.{call.name}:{index}",
            "type": "function",
            "function": function,
        }
        yield {"tool_calls": [{"index": index, **entry}]}
    for pieces in zip_longest(*(_cut(_json(call.arguments)) for call in calls)):
        for index, piece in enumerate(pieces):
            if piece is not None:
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(field: str, text: str) -> Iterator[Delta]:
    for piece in _cut(text):
        yield {field: piece}


def _cut(text: str) -> Iterator[str]:
    """Cut text into pieces of a few characters, the same ones in every run."""
    random, start = Random(len(text)), 0
    while start < len(text):
        end = start + random.randint(1, 12)
        yield text[start:end]
        start = end


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


STYLES = {
    "kimi": Style("moonshotai/kimi-k2.5", write_kimi),
    "kimi-reasoning": Style("moonshotai/kimi-k2.5", write_kimi, "reasoning_content"),
    "kimi-k3": Style("moonshotai/kimi-k3", write_k3),
    "kimi-k3-reasoning": Style("moonshotai/kimi-k3", write_k3, "reasoning_content"),
    "qwen-coder": Style("qwen/qwen3-coder", write_qwen_coder),
    "qwen-coder-reasoning": Style("qwen/qwen3-coder", write_qwen_coder, "reasoning_content"),
    "hermes": Style("qwen/qwen3-max", write_hermes),
    "hermes-reasoning": Style("qwen/qwen3-max", write_hermes, "reasoning"),
    "deepseek": Style("deepseek/deepseek-v3.1", write_deepseek_v31),
    "deepseek-reasoning": Style("deepseek/deepseek-v3.1", write_deepseek_v31, "reasoning_content"),
    "dsml": Style("deepseek/deepseek-v3.2", write_dsml),
    "dsml-reasoning": Style("deepseek/deepseek-v3.2", write_dsml, "reasoning"),
    "glm": Style("z-ai/glm-4.7", write_glm),
    "glm-reasoning": Style("z-ai/glm-4.7", write_glm, "reasoning_content"),
    "cohere": Style("cohere/command-a-03-2025", write_cohere),
    "cohere-reasoning": Style("cohere/command-a-03-2025", write_cohere, "reasoning_content"),
    "gemma": Style("google/gemma-4-27b-it", write_gemma),
    "gemma-reasoning": Style("google/gemma-4-27b-it", write_gemma, "reasoning_content"),
    "harmony": Style("openai/gpt-oss-120b", write_harmony),
    "harmony-reasoning": Style("openai/gpt-oss-120b", write_harmony, "reasoning"),
    "minimax-m2": Style("minimax/minimax-m2.5", write_minimax_m2),
    "minimax-m2-reasoning": Style("minimax/minimax-m2.5", write_minimax_m2, "reasoning_content"),
    "minimax-m3": Style("minimax/minimax-m3", write_minimax_m3),
    "hy3": Style("tencent/hy3-preview", write_hy3),
    "seed": Style("bytedance/seed-oss-36b", write_seed),
    "step": Style("stepfun-ai/step3", write_step),
    "kimi-anthropic": Style("moonshotai/kimi-k2.5", write_anthropic),
    "deepseek-anthropic": Style("deepseek/deepseek-v4-flash", write_anthropic),
    "ernie": Style("baidu/ernie-4.5-21b-a3b", write_hermes),
    "granite": Style("ibm-granite/granite-3.0-8b-instruct", write_granite),
    "granite-20b": Style("ibm-granite/granite-20b-functioncalling", write_granite_20b),
    "granite-4": Style("ibm-granite/granite-4.0-h-small", write_hermes),
    "hunyuan": Style("tencent/hunyuan-a13b-instruct", write_tool_calls),
    "internlm": Style("internlm/internlm3-8b-instruct", write_internlm),
    "jamba": Style("ai21/jamba-large-1.7", write_tool_calls),
    "longcat": Style("meituan/longcat-flash-chat", write_longcat),
    "mistral": Style("mistralai/devstral-2", write_mistral),
    "mistral-array": Style("mistralai/mistral-nemo", write_mistral_array),
    "mistral-reasoning": Style("mistralai/devstral-2", write_mistral, "reasoning_content"),
    "nemotron": Style("nvidia/llama-3.3-nemotron-super-49b-v1.5", write_nemotron),
    "nemotron-3": Style("nvidia/nemotron-3-nano-30b-a3b", write_qwen_coder),
    "phi": Style("microsoft/phi-4-mini-instruct", write_phi),
    "llama": Style("meta-llama/llama-3.3-70b-instruct", write_llama_json),
    "llama-reasoning": Style("meta-llama/llama-3.3-70b-instruct", write_llama_json, "reasoning"),
    "llama-python": Style("meta-llama/llama-4-maverick", write_python),
    "lfm": Style("liquid/lfm2-8b-a1b", write_lfm),
    "lfm-reasoning": Style("liquid/lfm2-8b-a1b", write_lfm, "reasoning_content"),
    "auto-kimi": Style("house/model-one", write_kimi),
    "auto-kimi-reasoning": Style("house/model-one", write_kimi, "reasoning_content"),
    "auto-glm": Style("house/model-two", write_glm),
    "auto-minimax": Style("house/model-three", write_minimax_m2),
    "structured": Style("other/plain", None),
    "kimi-structured": Style("moonshotai/kimi-k2.5", None),
}
