"""Toolbox: the tools that a request declares, for reading its response.

Resolves misspelled names, and knows the types of parameters. A schema is parsed when its tool is
first called.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from formats.conversation import Tool

_STRING = frozenset({"string"})
_COMBINER_DEPTH = 8
# A token or a tag; `a<b` may be a name.
_MARKUP = re.compile(r"<(?:[|｜/]|\w{1,64}>)")
_JSON_TYPES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}
# Names of other languages, in schemas made from code.
_TYPE_ALIASES = {
    "str": ("string",),
    "int": ("integer",),
    "float": ("number",),
    "double": ("number",),
    "bool": ("boolean",),
    "dict": ("object",),
    "list": ("array",),
    "tuple": ("array",),
    "none": ("null",),
    "any": tuple(_JSON_TYPES.values()),
}


class Toolbox:
    def __init__(
        self, tools: Iterable[Tool] = (), *, aliases: Mapping[str, str] | None = None
    ) -> None:
        """`aliases` maps names sent to the upstream to the names that the client declared."""
        tools = tuple(tools)
        self._schemas = {tool.name: tool.schema for tool in tools}
        self._custom = frozenset([tool.name for tool in tools if tool.is_custom])
        self._aliases = aliases or {}
        self._folded: dict[str, str | None] | None = None  # built on the first unknown name
        self._parsed: dict[str, dict[str, Any]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._schemas or name in self._aliases

    @property
    def is_empty(self) -> bool:
        return not self._schemas

    def has_prefix(self, prefix: str) -> bool:
        """Return whether the name of a declared tool begins with `prefix`."""
        return any(name.startswith(prefix) for name in (*self._schemas, *self._aliases))

    def is_custom(self, name: str) -> bool:
        """Return whether the client's tool takes plain text."""
        return name in self._custom

    def resolve(self, name: str) -> str:
        """Return the declared tool that `name` means, or the name without known markup."""
        if name in self._schemas:
            return name
        # Harmony and GLM leave markup after the name: `f<|channel|>commentary`, `f</arg_value>`.
        bare = _MARKUP.split(name, 1)[0].strip().removeprefix("functions.") or name
        bare = self._aliases.get(bare, bare)
        if bare in self._schemas:
            return bare
        if self._folded is None:
            self._folded = _folded(self._schemas)
        return self._folded.get(bare.lower()) or bare

    def infer(self, keys: Iterable[str]) -> str | None:
        """Return the tool whose parameters fit these argument names best; None if ambiguous."""
        if len(self._schemas) == 1:
            return next(iter(self._schemas))
        given = set(keys)
        scores: dict[str, int] = {}
        for name in self._schemas:
            known = given & self._properties_of(name).keys()
            scores[name] = len(known) - len(given - known)
        best = max(scores.values(), default=-1)
        winners = [name for name, score in scores.items() if score == best]
        return winners[0] if best > -1 and len(winners) == 1 else None

    def parameters(self, name: str) -> Collection[str]:
        """Return the parameters in the tool's schema; empty for an unknown tool."""
        return self._properties_of(name).keys()

    def types(self, name: str, key: str) -> frozenset[str]:
        """Return the JSON types that the schema allows for a parameter; `string` by default."""
        return schema_types(self.schema(name, key)) or _STRING

    def schema(self, name: str, key: str) -> Any:
        """Return the schema of a parameter; None if there is none."""
        return self._properties_of(name).get(key)

    def non_null_optionals(self, name: str) -> frozenset[str]:
        """Return the optional parameters for which the schema does not allow null."""
        required = _list(self._schema_of(name).get("required"))
        return frozenset(
            key
            for key, schema in self._properties_of(name).items()
            if key not in required and (types := schema_types(schema)) and "null" not in types
        )

    def _properties_of(self, name: str) -> dict[str, Any]:
        properties = self._schema_of(name).get("properties")
        return properties if isinstance(properties, dict) else {}

    def _schema_of(self, name: str) -> dict[str, Any]:
        name = self._aliases.get(name, name)
        if name not in self._parsed:
            schema = msgspec.json.decode(self._schemas.get(name, b"{}"))
            self._parsed[name] = schema if isinstance(schema, dict) else {}
        return self._parsed[name]


def _folded(names: Iterable[str]) -> dict[str, str | None]:
    """Map lower-case names to names; None if several differ only in case."""
    folded: dict[str, str | None] = {}
    for name in names:
        folded[name.lower()] = None if name.lower() in folded else name
    return folded


def schema_types(schema: Any, depth: int = 0) -> frozenset[str]:
    """Return the union of `type`, the types of `enum` values, and those of combined branches."""
    if not isinstance(schema, dict) or depth > _COMBINER_DEPTH:
        return frozenset()
    declared = schema.get("type")
    names = [declared] if isinstance(declared, str) else declared
    types = {kind for name in _list(names) if isinstance(name, str) for kind in _json_types(name)}
    types |= {_JSON_TYPES[type(value)] for value in _list(schema.get("enum"))}
    for combiner in ("anyOf", "oneOf", "allOf"):
        for branch in _list(schema.get(combiner)):
            types |= schema_types(branch, depth + 1)
    return frozenset(types)


def _json_types(name: str) -> tuple[str, ...]:
    # Gemini's schemas have the names in capitals.
    name = name.lower()
    return _TYPE_ALIASES.get(name, (name,))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
