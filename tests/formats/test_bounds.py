"""Law 6: held text stays within its limit, and work grows linearly, even for hostile input.

Work is counted, not timed: function calls under a profiler, and held characters, which are scanned
again with the next piece.
"""

import json
import time
import tracemalloc
from cProfile import Profile
from itertools import product

import pytest

from formats import (
    AUTO,
    DIALECTS,
    FORMATS,
    Identity,
    Limits,
    MessageFailed,
    Target,
    TextDelta,
    Tool,
    build_pipeline,
    collect,
    estimate_tokens,
)
from formats.complexity import Complexity
from formats.conversation import Text
from formats.native.rescue import CallRescue
from formats.toolbox import Toolbox
from tests.support.native_calls import NATIVE
from tests.support.operator_formats import OPERATOR_FORMATS, native_named, reading
from tests.support.wire import chunk, decode, stream

KIMI_CALL = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
)
DEEPSEEK_CALL = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>"
HOSTILE = {
    "angles": "<",
    "openers": "<|tool_call_begin|>",
    "sections": "<|tool_calls_section_begin|>",
    "braces": "{",
    "quotes": '\\"',
    "tags": "<tool_call>",
    "functions": "<function=f>",
    "cut functions": "<function=f\n",
    "parameters": "<parameter=",
    "flowers": "✿FUNCTION✿: f\n",
    "bars": "<｜",
    "deepseek openers": "<｜tool▁call▁begin｜>",
    "channels": "<|channel|>",
    "cohere openers": "<|START_ACTION|>[",
    "gemma openers": "<|tool_call>call:f{",
    "gemma delimiters": '<|"|>',
    "gemma items": "a:[",
    "k3 openers": "<|open|>",
    "k3 tags": '<|open|>call tool="f" ',
    "messages": "<|start|>assistant<|channel|>analysis<|message|>",
    "message ends": "<|end|>",
    "python openers": "[f(",
    "python calls": "[f(a='x'), ",
    "python ends": "<|python_end|>",
    "python tags": "<|python_tag|>",
    "lists": "[",
    "backslashes": "\\",
    "single quotes": "'",
    "words": "a1_",
    "objects": '{"name": "f", ',
    "DSML": '<｜DSML｜invoke name="f">',
    "cut DSML": '<｜DSML｜invoke name="f"\n',
    "pairs": "<arg_key>a</arg_key><arg_value>",
    "pair ends": "</arg_value>\n",
    "invokes": '<invoke name="f">',
    "cut invokes": '<invoke name="f"\n',
    "prefixes": "]<]minimax[>[",
    "elements": "]<]minimax[>[<a>",
    "element ends": "]<]minimax[>[</a>\n",
    "step openers": "<｜tool_calls_begin｜>",
    "outputs": "<｜tool▁output▁begin｜>",
    "think": "<think>",
    "blanks": " \n",
    "closers": "</parameter>\n",
    "mistral openers": "[TOOL_CALLS]",
    "mistral names": "[TOOL_CALLS]f",
    "mistral ids": "[TOOL_CALLS]f[CALL_ID]",
    "brackets": "[",
    "functools": "functools[",
    "granite openers": "<|tool_call|>",
    "action starts": "<|action_start|> ",
    "arrays": "<tool_calls>[",
    "ends of arrays": "}]",
    "operator's openers": "⟦call⟧",
    "operator's tags": '<acme:do tool="f">',
    "operator's cut tags": "<acme:do tool=f\n",
    "operator's attributes": "<acme:over a ",
}
OPENINGS = {
    "text": "",
    "kimi string": KIMI_CALL + '{"a": "',
    "kimi value": KIMI_CALL,
    "hermes string": '<tool_call>{"name": "f", "arguments": {"a": "',
    "hermes object": "<tool_call>{",
    "coder value": "<tool_call>\n<function=f>\n<parameter=a>\n",
    "coder function": "<tool_call>\n<function=f>\n",
    "deepseek string": DEEPSEEK_CALL + '{"a": "',
    "dsml value": '<｜DSML｜tool_calls><｜DSML｜invoke name="f">'
    '<｜DSML｜parameter name="a" string="true">',
    "glm value": "<tool_call>f<arg_key>a</arg_key><arg_value>",
    "glm call": "<tool_call>f<arg_key>",
    "minimax value": '<minimax:tool_call><invoke name="f"><parameter name="a">',
    "minimax elements": ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="f">]<]minimax[>[<a>',
    "hunyuan value": "<tool_calls><tool_call>f<tool_sep><arg_key>a</arg_key><arg_value>",
    "seed value": "<seed:tool_call><function=f><parameter=a>",
    "step value": '<｜tool_calls_begin｜><steptml:invoke name="f"><steptml:parameter name="a">',
    "mistral string": '[TOOL_CALLS]f[ARGS]{"a": "',
    "mistral array": '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}',
    "mistral name": "[TOOL_CALLS]f",
    "phi string": 'functools[{"name": "f", "arguments": {"a": "',
    "phi object": "functools[{",
    "nemotron array": "<TOOLCALL>[",
    "internlm string": '<|action_start|><|plugin|>{"name": "f", "arguments": {"a": "',
    "deepseek output": "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>",
    "kimi released": "<|tool_calls_section_begin|>" + "prose, " * 50,
    "draft": "<think>" + KIMI_CALL,
    "kimi k3 value": '<|open|>tools<|sep|><|open|>call tool="f"<|sep|>'
    '<|open|>argument key="a" type="string"<|sep|>',
    "kimi k3 reasoning": "<|open|>think<|sep|>",
    "kimi k3 draft": "<|open|>think<|sep|>" + KIMI_CALL,
    "cohere string": '<|START_ACTION|>[{"tool_name": "f", "parameters": {"a": "',
    "cohere reasoning": "<|START_THINKING|>",
    "gemma string": '<|tool_call>call:f{a:<|"|>',
    "gemma bare": "<|tool_call>call:f{a:",
    "gemma key": "<|tool_call>call:f{",
    "gemma converted": "<start_function_call>call:f{n:<escape>",
    "llama string": "<|python_start|>[f(a='",
    "llama triple string": '<|python_start|>[f(a="""',
    "llama raw string": '<|python_start|>[f(a=r"',
    "llama value": "<|python_start|>[f(a=",
    "llama nested": "<|python_start|>[f(a=[",
    "llama keywords": "<|python_start|>[f(",
    "llama list": "<|python_start|>[f()",
    "llama json": '{"name": "f", "parameters": {"a": "',
    "llama held": '{"parameters": {"a": "',
    "llama name": '{"name": "',
    "lfm string": '<|tool_call_start|>[f(a="',
    "harmony string": "<|channel|>commentary to=functions.f<|message|>" + '{"a": "',
    "harmony header": "<|channel|>commentary to=functions.f",
    "harmony recipient": "to=functions.f",
    "harmony reasoning": "<|channel|>analysis<|message|>",
    "operator-tokens string": '⟦calls⟧⟦call⟧f⟦with⟧{"a": "',
    "operator-tokens header": "⟦calls⟧⟦call⟧f",
    "operator-tokens reasoning": "⟦muse⟧",
    "operator-tags value": '<acme:calls><acme:do tool="f"><acme:with key="a">',
    "operator-tags call": '<acme:calls><acme:do tool="f">',
}


def work(format_name: str, text: str, piece: int) -> tuple[int, int]:
    """Return the function calls to read a text in pieces, and the most characters held."""
    native = native_named(format_name)
    assert native
    tools = [Tool("f", None, b"{}")] if format_name == AUTO else []
    transform = CallRescue(native, Toolbox(tools), Limits(held_chars=1 << 30))
    held = 0
    pieces = [text[at : at + piece] for at in range(0, len(text), piece)]
    with Profile() as profile:
        for part in pieces:
            transform.feed([TextDelta(part)])
            held = max(held, len(transform._scanner._pending))
    return sum(entry.callcount for entry in profile.getstats()), held


FORMAT_OF = {"hermes": "qwen", "coder": "qwen", "dsml": "deepseek", "draft": "kimi"}


@pytest.mark.parametrize("opening", OPENINGS)
def test_work_grows_linearly_with_the_input(opening):
    first = opening.partition(" ")[0]
    names = NATIVE if first == "text" else [FORMAT_OF.get(first, first)]
    for name, unit in product(names, HOSTILE.values()):
        once, _ = work(name, OPENINGS[opening] + unit * (1000 // len(unit)), 50)
        twice, held = work(name, OPENINGS[opening] + unit * (2000 // len(unit)), 50)
        assert twice < 2.5 * once + 100, unit
        # Held text is scanned again with every piece, so it must not grow with the input.
        assert held < 1200, unit


def test_work_of_auto_grows_linearly_with_the_input():
    units = list(HOSTILE.values())
    for number, opening in enumerate(OPENINGS.values()):
        for unit in units[number % 8 :: 8]:
            once, _ = work(AUTO, opening + unit * (1000 // len(unit)), 50)
            twice, held = work(AUTO, opening + unit * (2000 // len(unit)), 50)
            assert twice < 2.5 * once + 100, (opening, unit)
            assert held < 1200, (opening, unit)


@pytest.mark.parametrize(
    ("opener", "end"),
    [
        # The first call reads all others as a value, and so does the next one when it has failed.
        ('<invoke name="f"><parameter name="a">', '</parameter><parameter name="">'),
        ("<function=f><parameter=a>", "</parameter><parameter= >"),
        (
            '<|open|>call tool="f"<|sep|><|open|>argument key="a" type="string"<|sep|>',
            '<|close|>argument<|sep|><|open|>argument key="" type="string"<|sep|>',
        ),
    ],
)
def test_released_text_is_read_again_a_few_times_only(opener, end):
    once, _ = work(AUTO, opener * 60 + end, 50)
    twice, _ = work(AUTO, opener * 120 + end, 50)
    assert twice < 2.5 * once


@pytest.mark.parametrize("unit", ["<|channel|>", "<|start|>", "<|start|>a<|channel|>b"])
@pytest.mark.parametrize("format_name", ["harmony", AUTO])
def test_a_header_is_read_again_for_a_few_tokens_only(format_name, unit):
    """W18: a header of tokens alone was read again from each of them, up to its limit."""
    text = unit * (1100 // len(unit))
    for piece, calls_per_char in ((1, 300), (50, 40)):
        calls, _ = work(format_name, text, piece)
        assert calls < calls_per_char * len(text)


@pytest.mark.parametrize("format_name", [*FORMATS, *OPERATOR_FORMATS])
@pytest.mark.parametrize("unit", ["angles", "openers", "braces", "quotes"])
def test_long_hostile_text_is_read_to_its_end(format_name, unit):
    size = 100_000 if format_name == "kimi" else 20_000
    body = HOSTILE[unit] * (size // len(HOSTILE[unit]))
    half = size // 2
    reply = collect(
        decode(stream({"content": body[:half]}, {"content": body[half:]}), format_name=format_name)
    )
    assert reply.failure or reply.parts == [Text(body)]


def consecutive_messages(count):
    return [{"role": "user", "content": "a"}] * count


def many_calls(count):
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for n in range(count)
    ]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "r"} for call in calls]
    return [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": calls}, *results]


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("messages", [consecutive_messages, many_calls])
def test_work_grows_linearly_with_the_number_of_messages(messages, upstream):
    def cost(count):
        """Return the CPU seconds to parse and render a request, the minimum of two."""
        body = json.dumps({"model": "m", "messages": messages(count)}).encode()
        seconds = []
        for _ in range(2):
            start = time.process_time()
            conversation = DIALECTS["openai"].parse(body, Complexity(nodes=10**6))
            DIALECTS[upstream].render(conversation, Target())
            estimate_tokens(conversation)
            seconds.append(time.process_time() - start)
        return min(seconds)

    # Other load may disturb one measurement, but not five.
    assert any(cost(6_000) < 9 * cost(1_500) + 0.02 for _ in range(5))


DRAFT = "<think>" + KIMI_CALL
HELD_TEXTS = {
    "a draft": ("kimi", [DRAFT, *["x" * 100] * 100]),
    "arguments encoded twice": ("kimi", [KIMI_CALL + '"', *["x" * 100] * 100]),
    "an envelope out of order": ("qwen", ['<tool_call>{"arguments": {"a": "', *["x" * 100] * 100]),
    "a typed value": (
        "deepseek",
        [OPENINGS["dsml value"].replace("true", "false"), *["x" * 100] * 100],
    ),
}


@pytest.mark.parametrize("format_name", ["qwen", "deepseek"])
def test_a_parameter_that_may_wrap_all_arguments_is_held_within_the_limit(format_name):
    opening = OPENINGS["coder value" if format_name == "qwen" else "dsml value"]
    opening = opening.replace('"a"', '"input"').replace("=a>", "=input>")
    body = stream({"content": opening}, *[{"content": "x" * 100}] * 100)
    tools = Toolbox([Tool("f", None, b"{}")])
    failed = decode(body, format_name=format_name, tools=tools, limits=Limits(held_chars=5000))[-1]
    assert isinstance(failed, MessageFailed)
    assert "held_chars" in failed.message


@pytest.mark.parametrize("case", HELD_TEXTS)
def test_held_text_over_its_limit_fails_the_message(case):
    format_name, pieces = HELD_TEXTS[case]
    body = stream(*({"content": piece} for piece in pieces))
    failed = decode(body, format_name=format_name, limits=Limits(held_chars=5000))[-1]
    assert isinstance(failed, MessageFailed)
    assert failed.kind == "format_transformation_error"
    assert "held_chars" in failed.message


def test_interleaved_calls_over_the_limit_fail_the_message():
    body = stream(
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"a":'}}]},
        {
            "tool_calls": [
                {"index": 1, "id": "b", "function": {"name": "f", "arguments": "x" * 9000}}
            ]
        },
    )
    failed = decode(body, limits=Limits(held_chars=5000))[-1]
    assert isinstance(failed, MessageFailed)
    assert "held_chars" in failed.message


def test_an_event_over_its_limit_fails_the_message():
    failed = decode(stream({"content": "x" * 9000}), limits=Limits(event_bytes=5000))[-1]
    assert isinstance(failed, MessageFailed)
    assert "event_bytes" in failed.message


@pytest.mark.parametrize("format_name", [*FORMATS, *OPERATOR_FORMATS])
def test_memory_does_not_grow_with_the_answer(format_name):
    def peak(chunks: int) -> int:
        pipeline = build_pipeline(
            client="anthropic",
            upstream="openai",
            identity=Identity(token="t"),
            **reading(format_name),
        )
        text = chunk({"content": "some words, and more of them "})
        opening = chunk({"content": KIMI_CALL + '{"a": "'}) if format_name == "kimi" else text
        pipeline.feed(opening)
        tracemalloc.start()
        for _ in range(chunks):
            pipeline.feed(text)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak_bytes

    peak(10)
    long = peak(1000)
    assert long < peak(100) + 20_000
    assert long < 100_000
