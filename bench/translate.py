"""Measures translation: CPU time per chunk and per request, and memory per stream.

    python -m bench.translate

Values are the lowest CPU time of several rounds. Compare within one run, in relation to the row "a
bare JSON decode", because milliseconds vary with the machine.
"""

import json
import platform
import tracemalloc
from collections.abc import Callable
from functools import partial
from time import process_time

import msgspec

from bench.corpus import NATIVE_CALLS, NATIVE_PIECE, answer, argument_deltas, pieces, tools_for
from formats import (
    DIALECTS,
    Identity,
    Target,
    Toolbox,
    build_pipeline,
    detect_format,
    estimate_tokens,
)
from tests.support.operator_formats import reading

ROUNDS = 7


def request(size: int = 62_000) -> bytes:
    """A turn of Claude Code: 20 tools, a long system prompt and 11 messages."""
    parameters = {f"parameter_{n}": {"type": "string", "description": "d" * 100} for n in range(7)}
    schema = {"type": "object", "properties": parameters, "required": ["parameter_0"]}
    history: list[dict[str, object]] = [{"role": "user", "content": "Please fix the tests."}]
    for turn in range(5):
        call = {
            "type": "tool_use",
            "id": f"toolu_{turn}",
            "name": "Tool1",
            "input": {"a": "b" * 900},
        }
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": "line\n" * 500}
        history.append({"role": "assistant", "content": [{"type": "text", "text": "Ok."}, call]})
        history.append({"role": "user", "content": [result]})
    body = {
        "model": "kimi-k2.5",
        "max_tokens": 32000,
        "stream": True,
        "system": [{"type": "text", "text": "s" * 6500, "cache_control": {"type": "ephemeral"}}]
        * 2,
        "tools": [
            {"name": f"Tool{n}", "description": "d" * 300, "input_schema": schema}
            for n in range(20)
        ],
        "messages": history,
    }
    encoded = json.dumps(body).encode()
    return (
        encoded
        if len(encoded) >= size
        else json.dumps(body | {"metadata": {"user_id": "u" * (size - len(encoded))}}).encode()
    )


def best(work: Callable[[], object], times: int) -> float:
    """The lowest CPU time of one call, in seconds."""
    times_per_call = []
    for _ in range(ROUNDS):
        start = process_time()
        for _ in range(times):
            work()
        times_per_call.append((process_time() - start) / times)
    return min(times_per_call)


def relay(reads: list[bytes], format_name: str, client: str = "anthropic") -> bytes:
    pipeline = build_pipeline(
        client=client,
        upstream="openai",
        **reading(format_name),
        identity=Identity(token="t"),
        toolbox=tools_for(format_name),
    )
    return b"".join([pipeline.feed(data) for data in reads]) + pipeline.close()


def render(body: bytes) -> bytes:
    conversation = DIALECTS["anthropic"].parse(body)
    target = Target(native_ids="kimi", reasoning_field="reasoning_content")
    return DIALECTS["openai"].render(conversation, target).body


def peak_of_a_stream(chunks: list[bytes], format_name: str) -> int:
    """Peak of memory while a stream is relayed chunk by chunk."""
    relay(chunks, format_name)
    tracemalloc.start()
    pipeline = build_pipeline(
        client="anthropic",
        upstream="openai",
        **reading(format_name),
        identity=Identity(token="t"),
        toolbox=Toolbox(),
    )
    for data in chunks:
        pipeline.feed(data)
    pipeline.close()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def row(name: str, value: float, unit: str, target: str = "") -> None:
    print(f"{name:<58}{value:>10.2f} {unit:<12}{target}")


def families(words: list[bytes]) -> None:
    """Print a row for each format: plain text, and an answer with one call, in pieces."""
    print(f"\n{'format':<16}{'plain text, µs/chunk':>22}{'a call, µs':>12}{'chunks':>8}")
    for name, call in NATIVE_CALLS.items():
        text = best(partial(relay, [b"".join(words)], name), 5) / len(words)
        chunks = answer(*({"content": piece} for piece in pieces(call, NATIVE_PIECE)))
        whole = best(partial(relay, chunks, name), 100)
        print(f"{name:<16}{text * 1e6:>22.2f}{whole * 1e6:>12.0f}{len(chunks):>8}")


def main() -> None:
    words = answer(*({"content": f" word{n % 10}"} for n in range(2000)))
    body = request()
    writes = answer(*argument_deltas(4000))
    print(f"Python {platform.python_version()}, msgspec {msgspec.__version__}\n")
    row("detection", best(lambda: detect_format("moonshotai/kimi-k2.5"), 20_000) * 1e6, "µs")
    payloads = [data[6:-2] for data in words[:-1]]
    bare = best(lambda: list(map(msgspec.json.decode, payloads)), 5) / len(words)
    row("a bare JSON decode, for comparison", bare * 1e6, "µs/chunk")
    apart = best(lambda: relay(words, "kimi"), 5) / len(words)
    row("plain text, kimi, a read each", apart * 1e6, "µs/chunk")
    kept = best(lambda: relay(words, "kimi", "openai"), 5) / len(words)
    row("the same, passed through", kept * 1e6, "µs/chunk", "not above the last")
    assert relay(words, "kimi", "openai") == b"".join(words)
    row(
        "40 KB of arguments in 4,000 deltas, in bulk",
        best(lambda: relay([b"".join(writes)], "kimi"), 3) * 1e3,
        "ms",
    )
    row("the same, a read each", best(lambda: relay(writes, "kimi"), 3) * 1e3, "ms")
    row(
        f"a request of {len(body) // 1000} KB, parsed and rendered",
        best(lambda: render(body), 100) * 1e3,
        "ms",
        "target 0.4",
    )
    conversation = DIALECTS["anthropic"].parse(body)
    row(
        "estimating its input tokens",
        best(lambda: estimate_tokens(conversation), 2000) * 1e6,
        "µs",
        "target 100",
    )
    row(
        "peak memory of a stream of 2,000 chunks",
        peak_of_a_stream(words, "kimi") / 1e3,
        "KB",
        "target 100",
    )
    row(
        "peak memory of a stream with 40 KB of arguments",
        peak_of_a_stream(writes, "kimi") / 1e3,
        "KB",
        "target 100",
    )
    families(words)


if __name__ == "__main__":
    main()
