"""Fields of a request, besides `model`, by which an upstream may choose the model.

A request to an upstream of the client's dialect keeps its unknown fields, and routers read some of
them: OpenRouter `models`, `preset` and `plugins`, LiteLLM `fallbacks`, `deployment_id` and
`prompt_id`, Vercel `providerOptions.gateway.models`, Anthropic `fallbacks` and the `model` of its
advisor tool. New ones appear every month, so names are recognised at any depth by the words in
them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from formats.errors import ClientError
from formats.json_splice import value_spans

_WORDS = ("model", "fallback")
_NAMES = frozenset(
    {"deployment", "deployment_id", "preset", "presets", "prompt_id", "route", "router"}
)
# Only at the top: OpenRouter's search plugin has an `engine` of its own. `engine` is the model of
# old OpenAI clients; a stored `prompt` has a model.
_NAMES_AT_TOP = frozenset({"engine", "prompt"})
_MAX_SEARCHED = 64 * 1024
"""Bytes of one request that are searched, because the search blocks the event loop."""
_MAX_PATH_CHARS = 200
# Fields of the dialects with texts, schemas and labels of the client, where no router looks for a
# model; `tools` are read separately.
_CONTENT = frozenset(
    {
        "client_metadata",
        "function_call",
        "functions",
        "input",
        "instructions",
        "messages",
        "metadata",
        "model",
        "output_config",
        "output_format",
        "prediction",
        "response_format",
        "safeguards",
        "stop",
        "stop_sequences",
        "system",
        "text",
        "tool_choice",
        "tools",
        "user",
    }
)
_SETTINGS = frozenset(
    {
        "fallbacks",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tokens",
        "models",
        "n",
        "parallel_tool_calls",
        "preset",
        "provider",
        "reasoning",
        "reasoning_effort",
        "route",
        "stream",
        "stream_options",
        "temperature",
        "thinking",
        "top_k",
        "top_p",
    }
)
_KNOWN = _CONTENT | _SETTINGS
_FUNCTION_TYPES = frozenset({b"null", b'"function"', b'"custom"'})

_SEARCHED = (str, tuple, list)

_tools = msgspec.json.Decoder(list[Raw] | None)
_object = msgspec.json.Decoder(dict[str, Raw])


def check_case(names: Iterable[str]) -> None:
    """Raise ClientError for a name that differs from a known field's only by case.

    JSON readers such as Go's would take it for the known field, after the gateway has checked
    another.
    """
    for name in names:
        if name not in _KNOWN and (known := name.casefold()) in _KNOWN:
            raise ClientError(f"is not a field: the name is {known!r}", path=name[:40])


def selects_model(name: str) -> bool:
    """Return whether a field of this name may choose the model."""
    folded = name.casefold()
    return folded in _NAMES or any(word in folded for word in _WORDS)


def named_models(source: Mapping[str, Raw]) -> Iterator[tuple[str, str]]:
    """Find each model that a request's fields name besides `model`, as (path, name).

    `source` has the top-level fields. Raises ClientError.
    """
    searched = 0
    for path, value, is_selected in _settings(source):
        searched += len(bytes(value))
        if searched > _MAX_SEARCHED:
            message = f"is too large to look for models in it (limit: {_MAX_SEARCHED} bytes)"
            raise ClientError(message, path=path)
        yield from _in_value(path, value, is_selected)


def _settings(source: Mapping[str, Raw]) -> Iterator[tuple[str, Raw, bool]]:
    """The values to search, as (path, value, whether its name may choose the model)."""
    for name, value in source.items():
        if name not in _CONTENT:
            is_selected = selects_model(name) or name.casefold() in _NAMES_AT_TOP
            yield name, value, is_selected
    for index, tool in enumerate(_tools.decode(source.get("tools", Raw(b"null"))) or ()):
        # The schema of a function is the client's; a server tool may have a model of its own.
        if not _is_function(tool, f"tools.{index}"):
            yield f"tools.{index}", tool, False


def _is_function(tool: Raw, path: str) -> bool:
    fields = _object.decode(tool)
    names = {name.casefold() for name in fields}
    if len(names) < len(fields) or value_spans(bytes(tool), fields) is None:
        raise ClientError("repeats a name", path=path)  # readers differ in which one counts
    return bytes(fields.get("type", Raw(b"null"))) in _FUNCTION_TYPES


def _in_value(path: str, text: Raw, is_selected: bool) -> Iterator[tuple[str, str]]:
    try:
        # Objects become tuples of their members, because a repeated name has several values.
        value: Any = json.loads(bytes(text), object_pairs_hook=tuple, parse_int=_nothing)
    except (ValueError, RecursionError) as error:
        raise ClientError("cannot be read", path=path) from error
    waiting = [(path, value, is_selected)]
    while waiting:
        path, value, is_selected = waiting.pop()
        match value:
            case str() if is_selected:
                yield path, value
            case tuple():
                for name, item in value:
                    if item.__class__ in _SEARCHED:
                        below = f"{path}.{name}"[:_MAX_PATH_CHARS]
                        waiting.append((below, item, is_selected or selects_model(name)))
            case list():
                for index, item in enumerate(value):
                    if item.__class__ in _SEARCHED:
                        below = f"{path}.{index}"[:_MAX_PATH_CHARS]
                        waiting.append((below, item, is_selected))


def _nothing(_: str) -> None:
    """Replaces a number, which may have more digits than Python converts."""
