"""Which types a parameter's schema allows, as far as that decides how its text is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

ALL_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_MAX_DEPTH: Final = 16


def value_types(schema: Mapping[str, Any], key: str) -> frozenset[str]:
    """JSON schema's names of the types that the property may have; all where nothing is said. Reads hostile
    schemas, too: what makes no sense says nothing."""
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        return _types(properties[key], schema, 0)
    return _types(schema.get("additionalProperties", True), schema, 0)


def value_schema(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The property's own schema, with the definitions that it may refer to."""
    own = schema["properties"].get(key)
    if not isinstance(own, Mapping):
        return {}
    definitions = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    return {**own, **definitions}


def _types(schema: Any, root: Mapping[str, Any], depth: int) -> frozenset[str]:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return ALL_TYPES
    named = schema.get("type")
    if isinstance(named, str):
        return _known([named])
    if isinstance(named, list):
        return _known(named)
    if "const" in schema:
        return _type_of(schema["const"])
    if isinstance(schema.get("enum"), list):
        return frozenset().union(*map(_type_of, schema["enum"])) or ALL_TYPES
    for name in ("anyOf", "oneOf"):
        options = schema.get(name)
        if isinstance(options, list) and options:
            return frozenset().union(*[_types(option, root, depth + 1) for option in options])
    parts = schema.get("allOf")
    if isinstance(parts, list) and parts:
        return frozenset(ALL_TYPES).intersection(*[_types(part, root, depth + 1) for part in parts])
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        return _types(_referred(reference, root), root, depth + 1)
    if "properties" in schema:
        return frozenset({"object"})
    if "items" in schema:
        return frozenset({"array"})
    return ALL_TYPES


def _referred(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for name in reference[2:].split("/"):
        if not isinstance(found, Mapping):
            return None
        found = found.get(name.replace("~1", "/").replace("~0", "~"))
    return found


def _known(names: list[Any]) -> frozenset[str]:
    return frozenset(name for name in names if isinstance(name, str) and name in ALL_TYPES) or ALL_TYPES


def _type_of(value: object) -> frozenset[str]:
    match value:
        case str():
            return frozenset({"string"})
        case None:
            return frozenset({"null"})
        case bool():
            return frozenset({"boolean"})
        case int():
            return frozenset({"integer"})
        case float():
            return frozenset({"number"})
        case list():
            return frozenset({"array"})
        case _:
            return frozenset({"object"})
