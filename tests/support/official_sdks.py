"""Clients of the official SDKs whose server answers with given bytes."""

from typing import Any

import anthropic
import httpx2
import openai

HEADERS = {"content-type": "text/event-stream"}
QUESTION: Any = [{"role": "user", "content": "x"}]


def _transport(body: bytes, headers: dict[str, str]) -> httpx2.Client:
    answer = httpx2.Response(200, headers=headers, content=body)
    return httpx2.Client(transport=httpx2.MockTransport(lambda request: answer))


def anthropic_client(body: bytes, headers: dict[str, str] = HEADERS) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        api_key="k", base_url="http://test", http_client=_transport(body, headers), max_retries=0
    )


def openai_client(body: bytes, headers: dict[str, str] = HEADERS) -> openai.OpenAI:
    return openai.OpenAI(
        api_key="k", base_url="http://test", http_client=_transport(body, headers), max_retries=0
    )


def streamed_by_anthropic(body: bytes) -> anthropic.types.Message:
    with anthropic_client(body).messages.stream(
        model="m", max_tokens=9, messages=QUESTION
    ) as answer:
        return answer.get_final_message()
