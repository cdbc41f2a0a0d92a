"""Metadata of an issue: a JSON object that scripts and agents keep on it, within bounds.

Merged as RFC 7396 says. Its values are nobody's business but its readers': facts and the timeline
name the keys that changed, never what they hold (W-044).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine import limits
from engine.domain import fields
from engine.domain.records import Json
from engine.errors import invalid


def checked(field: str, value: object) -> dict[str, Any]:
    """Return `value` if it is an object within the bounds of metadata; else 400."""
    stored = fields.json_object(field, value, bytes_max=limits.METADATA_BYTES_MAX)
    keys = 0
    level: list[object] = [stored]
    for _ in range(limits.METADATA_DEPTH_MAX):
        objects = [each for each in level if isinstance(each, Mapping)]
        keys += sum(map(len, objects))
        level = [inner for each in objects for inner in each.values()] + [
            inner for each in level if isinstance(each, list | tuple) for inner in each
        ]
    if any(isinstance(each, Mapping | list | tuple) for each in level):
        raise invalid(field, f"{field} must be at most {limits.METADATA_DEPTH_MAX} levels deep")
    if keys > limits.METADATA_KEYS_MAX:
        raise invalid(field, f"{field} must have at most {limits.METADATA_KEYS_MAX} keys in all")
    if len(stored) > limits.METADATA_NAMES_MAX:
        raise invalid(
            field, f"{field} must have at most {limits.METADATA_NAMES_MAX} keys at the top"
        )
    if any(len(key) > limits.METADATA_NAME_CHARS_MAX for key in stored):
        raise invalid(
            field,
            f"a key of {field} must be at most {limits.METADATA_NAME_CHARS_MAX} characters long",
        )
    return stored


def merged(target: Json, patch: Json) -> dict[str, Any]:
    """Return `target` after the merge patch (RFC 7396, section 2): null removes, objects merge."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            below = result.get(key)
            result[key] = merged(below if isinstance(below, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def changed_keys(old: Json, new: Json) -> list[str]:
    """Return the keys at the top whose values differ, or that only one of the two has, sorted."""
    return sorted(
        key
        for key in {*old, *new}
        if key not in old or key not in new or not is_same(old[key], new[key])
    )


def is_same(one: object, other: object) -> bool:
    """Whether two JSON values are equal as `jsonb` sees it: 1 equals 1.0, and true nothing else."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    return one == other
