"""Cases whose work is counted: the translation of every answer of the corpus, in each native format
and for each pair of dialects, in bulk and with one event per read; and a request of 62 KB.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.bodies import body
from bench.corpus import ANSWERS, tools_for
from formats import (
    DIALECTS,
    FORMATS,
    Identity,
    ReplyOptions,
    Target,
    build_pipeline,
    estimate_tokens,
)
from tests.support.operator_formats import OPERATOR_FORMATS, reading

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    at_scale: Callable[[int], Work]
    """Makes the work for a multiple of the input."""


def _translation(client: str, upstream: str, name: str, answer: str, *, bulk: bool) -> Case:
    def at_scale(scale: int) -> Work:
        reads = ANSWERS[answer](upstream, name, scale)
        if bulk:
            reads = [b"".join(reads)]

        def translate() -> None:
            pipeline = build_pipeline(
                client=client,
                upstream=upstream,
                **reading(name),
                identity=Identity(token="t"),
                toolbox=tools_for(name),
                options=ReplyOptions(include_usage=True),
            )
            for data in reads:
                pipeline.feed(data)
            pipeline.close()

        return translate

    how = "in bulk" if bulk else "a read each"
    return Case(f"{answer}, {name}, {upstream} to {client}, {how}", at_scale)


def _longer(request: dict[str, Any], scale: int) -> bytes:
    """The request with its messages and tools repeated `scale` times."""

    def again(parts: object, number: int) -> list[object]:
        text = json.dumps(parts)
        if number:
            text = text.replace("toolu_0", f"toolu_{number}")
            text = text.replace('"name": "', f'"name": "Other{number}')
        return list(json.loads(text))

    longer = {
        field: [part for number in range(scale) for part in again(request[field], number)]
        for field in ("messages", "tools")
    }
    return json.dumps(request | longer).encode()


def _request(client: str, upstream: str) -> Case:
    anthropic = body("B", stream=True)
    if client == "openai":
        conversation = DIALECTS["anthropic"].parse(anthropic)
        request = json.loads(DIALECTS["openai"].render(conversation, Target(model="m")).body)
    else:
        request = json.loads(anthropic)

    def at_scale(scale: int) -> Work:
        data = _longer(request, scale)

        def parse_and_render() -> None:
            conversation = DIALECTS[client].parse(data)
            estimate_tokens(conversation)
            target = Target(native_ids="kimi", reasoning_field="reasoning_content")
            DIALECTS[upstream].render(conversation, target)

        return parse_and_render

    return Case(f"a request, {client} to {upstream}", at_scale)


def cases() -> Iterator[Case]:
    for client in DIALECTS:
        for upstream in DIALECTS:
            yield _request(client, upstream)
            for name in (*FORMATS, *OPERATOR_FORMATS):
                for answer in ANSWERS:
                    for bulk in (True, False):
                        yield _translation(client, upstream, name, answer, bulk=bulk)
