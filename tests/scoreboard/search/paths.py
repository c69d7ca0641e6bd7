"""Fields of nested frozen dataclasses by dotted path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

Value = float | int | bool
Choice = Mapping[str, Value]
"""Values by dotted path."""

Settings = TypeVar("Settings")


def value_at(settings: Any, path: str) -> Any:
    """
    Raises:
        AttributeError: there is no such field.
    """
    for name in path.split("."):
        settings = getattr(settings, name)
    return settings


def with_values(settings: Settings, choice: Choice) -> Settings:
    """A copy with these values; what is not named stays as it is.

    Raises:
        TypeError: there is no such field.
    """
    for path, value in choice.items():
        settings = _with_value(settings, path.split("."), value)
    return settings


def _with_value(settings: Any, names: list[str], value: Value) -> Any:
    name, rest = names[0], names[1:]
    if rest:
        return replace(settings, **{name: _with_value(getattr(settings, name), rest, value)})
    return replace(settings, **{name: value})


def leaf_paths(settings: Any, prefix: str = "") -> list[str]:
    """Every field that holds a number, as a dotted path."""
    paths: list[str] = []
    for item in fields(settings):
        value = getattr(settings, item.name)
        if is_dataclass(value):
            paths += leaf_paths(value, f"{prefix}{item.name}.")
        elif isinstance(value, (int, float)):
            paths.append(prefix + item.name)
    return paths
