"""The models that a client may ask for, in the shape of its dialect."""

from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from proxy.configuration.routing import listed_models, resolve
from proxy.configuration.snapshot import Key, Snapshot
from proxy.errors import ErrorCode, GatewayError

# Neither dialect can leave it out, and nobody knows when a route's model was made.
_EPOCH = datetime.fromtimestamp(0, UTC)
_MOST = 1000


def listing(
    snapshot: Snapshot, key: Key, dialect: str, *, limit: int, after: str, before: str
) -> dict[str, Any]:
    """A page of the models that the key may use."""
    names = [name for name in listed_models(snapshot) if _allows(key, name)]
    if after in names:
        names = names[names.index(after) + 1 :]
    if before in names:
        names = names[: names.index(before)]
    page = names[: min(max(limit, 1), _MOST)]
    data = [_shown(name, dialect) for name in page]
    if dialect == "openai":
        return {"object": "list", "data": data}
    return {
        "data": data,
        "has_more": len(page) < len(names),
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
    }


def entry(snapshot: Snapshot, key: Key, dialect: str, name: str) -> dict[str, Any]:
    """One model; raises GatewayError when the key or the routes do not have it."""
    resolve(snapshot, name)
    if not _allows(key, name):
        raise GatewayError(
            ErrorCode.MODEL_NOT_FOUND, f"there is no model {name[:200]!r}", source="client"
        )
    return _shown(name, dialect)


def _allows(key: Key, name: str) -> bool:
    patterns = key.allowed_models
    return not patterns or any(fnmatchcase(name.lower(), p.lower()) for p in patterns)


def _shown(name: str, dialect: str) -> dict[str, Any]:
    if dialect == "openai":
        return {"id": name, "object": "model", "created": 0, "owned_by": "athena"}
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": _EPOCH.isoformat().replace("+00:00", "Z"),
    }
