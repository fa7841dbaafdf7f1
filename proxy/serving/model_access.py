"""Keeps a client key to the models that it may use.

A request may name more models than the one in `model`: for a router behind the upstream. For a
limited key each of them must be allowed, in every field and in the query string.
"""

from urllib.parse import parse_qsl

from formats import Conversation, named_models, selects_model
from proxy.configuration.patterns import matches
from proxy.configuration.routing import bare_name
from proxy.configuration.snapshot import Key
from proxy.errors import ErrorCode, GatewayError
from proxy.serving.request import GatewayRequest

_PRESET = "@preset/"
"""OpenRouter: `MODEL@preset/NAME` uses the settings of a preset, with models of its own."""


def allows_model(key: Key, model: str) -> bool:
    """Return whether the key may use a model, or all models of a comma-separated list.

    LiteLLM reads such a list. The text as a whole must match as well, because it chooses the route:
    a list, or a name with a space, may have another route than the names in it.
    """
    patterns = key.allowed_models
    names = (model, *(name.strip() for name in model.split(",") if "," in model))
    return not patterns or all(_matches(name, patterns) for name in names)


def check_models(request: GatewayRequest, conversation: Conversation) -> None:
    """Raise GatewayError if a request names a model that its key may not use."""
    key = request.admission.key
    if not allows_model(key, conversation.model):
        raise _not_allowed(conversation.model)
    if not key.allowed_models:
        return
    for path, model in named_models(conversation.source):
        if not allows_model(key, model):
            raise _not_allowed(model, path)
    for name, value in _query_fields(request.query_string):
        if selects_model(name) and not allows_model(key, value):
            raise _not_allowed(value, name)  # LiteLLM reads `model` in the query


def _query_fields(query: bytes) -> list[tuple[str, str]]:
    """Return the fields of a query string. Some servers also split it at semicolons."""
    text = query.replace(b";", b"&").decode("latin-1")
    return parse_qsl(text, keep_blank_values=True)


def _matches(model: str, patterns: tuple[str, ...]) -> bool:
    name = bare_name(model).lower()
    folded = [bare_name(pattern).lower() for pattern in patterns]
    if _PRESET in name:
        folded = [pattern for pattern in folded if _PRESET in pattern]
    return any(matches(name, pattern) for pattern in folded)


def _not_allowed(model: str, path: str = "") -> GatewayError:
    place = f", named in `{path[:200]}`" if path else ""
    message = f"this key is not allowed to use the model {model[:200]!r}{place}"
    return GatewayError(ErrorCode.MODEL_NOT_ALLOWED, message, param=path[:200] or None)
