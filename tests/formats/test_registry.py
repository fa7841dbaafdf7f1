"""Detection of formats: by override, then by vendor, then by a word in the model's name."""

import pytest

from formats import FORMATS, Detection, Override, answers_structured, detect_format

SPECIFIED_MODELS = {
    "moonshot/kimi-k2": "kimi",
    "kimi-k2-instruct": "kimi",
    "qwen/qwen3-coder": "qwen",
    "qwen3-coder-plus": "qwen",
    "deepseek/deepseek-chat": "deepseek",
    "deepseek-r1": "deepseek",
    "DeepSeek-V3": "deepseek",
    "claude-3-opus": "standard",
    "gpt-4": "standard",
    "KIMI-K2": "kimi",
    "unknown/model": "standard",
    "qwen-deepseek-mix": "qwen",
}
OTHER_MODELS = {
    "moonshotai/Kimi-K2.5": "kimi",
    "openrouter/moonshotai/some-model": "kimi",
    "qwen/deepseek-distill": "qwen",
    "deepseek/kimi-like": "deepseek",
    "k2": "kimi",
    "k2.5": "kimi",
    "accounts/fireworks/models/k2p6": "kimi",
    "z-ai/glm-5": "glm",
    "zai-org/GLM-4.5-Air": "glm",
    "glm-4.5-air": "glm",
    "accounts/fireworks/models/glm-4p7": "glm",
    "glmnet": "standard",
    "tencent/hy3-preview": "hunyuan",
    "hy30": "standard",
    "MiniMaxAI/MiniMax-M3": "minimax",
    "minimax-m2.5": "minimax",
    "bytedance/seed-oss-36b": "seed",
    "ByteDance-Seed/Seed-OSS-36B-Instruct": "seed",
    "bytedance/seed-1.6": "standard",
    "stepfun-ai/step3": "step",
    "step-3.5-flash": "step",
    "two-step-1": "standard",
    "xiaomi/mimo-v2-flash": "qwen",
    "mimo-v2.5-pro": "qwen",
    "cohere/command-a-03-2025": "cohere",
    "command-r7b-12-2024": "cohere",
    "command-r-plus": "cohere",
    "CohereLabs/c4ai-command-a-03-2025": "cohere",
    "command-run": "standard",
    "google/gemma-4-27b-it": "gemma",
    "gemma4:27b": "gemma",
    "google/functiongemma-270m-it": "gemma",
    "google/gemma-3-27b-it": "standard",
    "google/gemma-7b-it": "standard",
    "google/gemma-2-9b-it": "standard",
    "medgemma-4b-it": "standard",
    "openai/gpt-oss-120b": "harmony",
    "meta-llama/Llama-3.1-8B-Instruct": "llama",
    "accounts/fireworks/models/llama-v3p1-70b-instruct": "llama",
    "us.meta.llama4-maverick-17b-instruct-v1:0": "llama",
    "llama3.2:3b": "llama",
    "llama-3.3-70b-versatile": "llama",
    "hermes-3-llama-3.1-8b": "qwen",
    "deepseek-r1-distill-llama-70b": "deepseek",
    "ollama/phi": "standard",
    "codellama-34b": "standard",
    "llama-30b": "standard",
    "llama-2-70b": "standard",
    "liquid/lfm2-8b-a1b": "lfm",
    "lfm2.5:1.2b": "lfm",
    "wolfm2": "standard",
    "gpt-oss:20b": "harmony",
    "gptoss-20b": "harmony",
    "house-harmony": "harmony",
    "harmonyx": "standard",
    "deepseek-gpt-oss": "deepseek",
    "bk200": "standard",
    "mistral-large-latest": "mistral",
    "nousresearch/nous-hermes-2-mixtral-8x7b-dpo": "qwen",
    "deephermes-3-mistral-24b": "qwen",
    "mistral/anything": "mistral",
    "mixtral-8x22b": "mistral",
    "devstral-small-2507": "mistral",
    "codestral-latest": "mistral",
    "nvidia/mistral-nemotron": "mistral",
    "bedrock/mistral.pixtral-large-2502-v1:0": "mistral",
    "deepseek-r1-distill-mistral": "deepseek",
    "kimi-mistral-merge": "kimi",
    "llama-3.3-nemotron-super-49b": "nemotron",
    "nvidia/llama-3_1-nemotron-ultra-253b-v1": "nemotron",
    "openreasoning-nemotron-32b-qwen": "qwen",
    "jamba-1.5-mini": "jamba",
    "ai21/anything": "jamba",
    "granite-3.3-8b-instruct": "granite",
    "ibm/granite-4-h-small": "granite",
    "hunyuan-a13b": "hunyuan",
    "intern-s1-mini": "internlm",
    "longcat-flash": "longcat",
    "ernie-4.5-300b-a47b": "ernie",
    "bernie-7b": "standard",
    "phi-4": "phi",
    "phi4-mini": "phi",
    "microsoft/phi-4-mini-instruct": "phi",
    "dolphi-4": "standard",
    "microsoft/wizardlm-2-8x22b": "standard",
    "k200": "standard",
    "": "standard",
}


@pytest.mark.parametrize(("model", "format_name"), SPECIFIED_MODELS.items())
def test_model_ids_of_the_specification_are_detected(model, format_name):
    assert detect_format(model).format == format_name


@pytest.mark.parametrize(("model", "format_name"), OTHER_MODELS.items())
def test_vendors_take_precedence_over_words_and_k2_is_a_whole_word(model, format_name):
    assert detect_format(model).format == format_name


def test_an_override_takes_precedence_and_is_the_reason():
    overrides = [Override("acme/*", "kimi"), Override("*claude*", "qwen")]
    assert detect_format("Acme/deepseek-v3", overrides) == Detection("kimi", "override")
    assert detect_format("anthropic/claude-3-opus", overrides) == Detection("qwen", "override")
    assert detect_format("deepseek-v3", overrides) == Detection("deepseek", "detection")
    assert detect_format("gpt-4", overrides) == Detection("standard", "default")


def test_every_detected_format_is_registered():
    for model in SPECIFIED_MODELS | OTHER_MODELS:
        assert detect_format(model).format in FORMATS


@pytest.mark.parametrize(
    "model",
    [
        "anthropic/claude-opus-4.5",
        "claude-3-opus",
        "eu.anthropic.claude-sonnet-4-20250514-v1:0",
        "gpt-4",
        "openai/gpt-5.1-codex",
        "chatgpt-4o-latest",
        "o3-mini",
        "o1",
        "google/gemini-2.5-pro",
        "openrouter/x-ai/grok-4",
    ],
)
def test_names_that_tell_of_structured_calls(model):
    assert answers_structured(model)


@pytest.mark.parametrize(
    "model",
    [
        "openai/gpt-oss-120b",
        "gpt-oss:20b",
        "google/gemma-3-27b-it",
        "openai-community/gpt2",
        "acme/alpaca-gpt-4",
        "acme/llama-3-claude-distill",
        "o200k",
        "unknown/model",
        "",
    ],
)
def test_names_that_tell_nothing_of_structured_calls(model):
    assert not answers_structured(model)
