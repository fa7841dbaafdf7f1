"""Lists the models that a client key may use, in the client's dialect."""

from datetime import UTC, datetime
from typing import Any

from proxy.configuration.routing import bare_name, listed_models, resolve
from proxy.configuration.snapshot import Key, Snapshot
from proxy.errors import ErrorCode, GatewayError
from proxy.serving.model_access import allows_model

# Both dialects require a creation date, and a route's model has none.
_EPOCH = datetime.fromtimestamp(0, UTC)
_MAX_PAGE = 1000


def listing(
    snapshot: Snapshot, key: Key, dialect: str, *, limit: int, after: str, before: str
) -> dict[str, Any]:
    """Return one page of the models that the key may use."""
    names = [name for name in listed_models(snapshot) if allows_model(key, name)]
    if after in names:
        names = names[names.index(after) + 1 :]
    if before in names:
        names = names[: names.index(before)]
    page = names[: min(max(limit, 1), _MAX_PAGE)]
    data = [_rendered(snapshot, name, dialect) for name in page]
    if dialect == "openai":
        return {"object": "list", "data": data}
    return {
        "data": data,
        "has_more": len(page) < len(names),
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
    }


def entry(snapshot: Snapshot, key: Key, dialect: str, name: str) -> dict[str, Any]:
    """Return one model; raises GatewayError if no route has it or the key may not use it."""
    if not allows_model(key, name):
        message = f"there is no model {name[:200]!r}"
        raise GatewayError(ErrorCode.MODEL_NOT_FOUND, message, source="client")
    return _rendered(snapshot, name, dialect)


def _rendered(snapshot: Snapshot, name: str, dialect: str) -> dict[str, Any]:
    """Describe a model by the route that serves it; a limit that is not known is left out."""
    route = resolve(snapshot, name)
    behind = bare_name(name) != route.model
    described: dict[str, Any]
    if dialect == "openai":
        limits = {"context_length": route.context_window}
        described = {"id": name, "object": "model", "created": 0, "owned_by": "athena"}
    else:
        limits = {
            "max_input_tokens": route.context_window,
            "max_tokens": route.target.max_tokens,
        }
        described = {
            "type": "model",
            "id": name,
            "display_name": f"{name} → {route.model}" if behind else name,
            "created_at": _EPOCH.isoformat().replace("+00:00", "Z"),
        }
    return described | {field: limit for field, limit in limits.items() if limit is not None}
