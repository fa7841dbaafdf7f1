"""Presets of common upstreams: they fill the admin's form, except for the key."""

from collections.abc import Mapping
from dataclasses import dataclass

from proxy.models import Service


@dataclass(frozen=True, slots=True)
class Preset:
    label: str
    hint: str
    fields: Mapping[str, str]


PRESETS: Mapping[str, Preset] = {
    "openrouter": Preset(
        "OpenRouter",
        "Models of many vendors with one key, from openrouter.ai/keys.",
        {
            "name": "openrouter",
            "service": Service.OPENROUTER,
            "dialect": "openai",
            "base_url": "https://openrouter.ai/api/v1",
        },
    ),
    "vllm": Preset(
        "vLLM",
        "Your own server. It needs a key only if it was started with --api-key.",
        {
            "name": "vllm",
            "service": Service.OTHER,
            "dialect": "openai",
            "base_url": "http://127.0.0.1:8001/v1",
        },
    ),
    "anthropic": Preset(
        "Anthropic",
        "Claude models, with a key from console.anthropic.com.",
        {
            "name": "anthropic",
            "service": Service.ANTHROPIC,
            "dialect": "anthropic",
            "base_url": "https://api.anthropic.com",
        },
    ),
}
