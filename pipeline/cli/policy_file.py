"""Policies as TOML files, checked against what there is.

A file may say::

    preset = "expected-cost"

    [autonomy]
    rollback = "approve"

    [safety]
    cooldown_steps = 80

    [cost]
    patience_steps = 20
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from holter.pipeline.core.decide.policy import PRESETS
from holter.pipeline.core.decide.settings import PolicySettings, SettingError, adjusted, names
from holter.schemas.bounds import Autonomy, EffectName

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EFFECTS: tuple[EffectName, ...] = get_args(EffectName)
AUTONOMIES: tuple[Autonomy, ...] = get_args(Autonomy)
_NUMBERS = ("safety", "cost")


class PolicyFileError(ValueError):
    """The file cannot be used; the message names it, the key and what would do."""


@dataclass(frozen=True)
class PolicyFile:
    """What a file says; what it leaves out stays as it is."""

    preset: str | None = None
    autonomy: dict[EffectName, Autonomy] = field(default_factory=dict)
    settings: dict[str, float] = field(default_factory=dict)
    """By dotted name."""


def read_policy_file(path: Path) -> PolicyFile:
    """Raises:
    PolicyFileError: it is missing, is no TOML, or says something that there is not.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PolicyFileError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PolicyFileError(f"{path} is no TOML: {error}") from None
    try:
        return _checked(document)
    except ValueError as error:
        raise PolicyFileError(f"{path}: {error}") from None


def checked_autonomy(given: Mapping[str, object]) -> dict[EffectName, Autonomy]:
    """Raises:
    ValueError: there is no such effect or autonomy.
    """
    for effect, autonomy in given.items():
        if effect not in EFFECTS:
            raise ValueError(_unknown("effect", effect, EFFECTS))
        if autonomy not in AUTONOMIES:
            raise ValueError(f"the autonomy of {effect} is {autonomy!r}; it may be {', '.join(AUTONOMIES)}")
    return dict(given)  # type: ignore[arg-type]


def checked_settings(given: Mapping[str, object]) -> dict[str, float]:
    """Raises:
    ValueError: there is no such setting, it is no number, or out of its bounds.
    """
    known = names()
    for name, value in given.items():
        if name not in known:
            raise ValueError(_unknown("setting", name, known))
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name} is {value!r}, it must be a number")
    numbers = {name: float(value) for name, value in given.items()}  # type: ignore[arg-type]
    try:
        adjusted(PolicySettings(), numbers)
    except SettingError as error:
        raise ValueError(str(error)) from None
    return numbers


def checked_preset(preset: object) -> str | None:
    """Raises:
    ValueError: there is no such policy.
    """
    if preset is not None and preset not in PRESETS:
        raise ValueError(_unknown("policy", preset, PRESETS))
    return None if preset is None else str(preset)


def _checked(document: dict[str, Any]) -> PolicyFile:
    for key, value in document.items():
        if key not in ("preset", "autonomy", *_NUMBERS):
            raise ValueError(_unknown("key", key, ("preset", "[autonomy]", *(f"[{part}]" for part in _NUMBERS))))
        if key != "preset" and not isinstance(value, dict):
            raise ValueError(f"{key} must be a table, [{key}]")
    numbers = {f"{part}.{name}": value for part in _NUMBERS for name, value in document.get(part, {}).items()}
    return PolicyFile(
        preset=checked_preset(document.get("preset")),
        autonomy=checked_autonomy(document.get("autonomy", {})),
        settings=checked_settings(numbers),
    )


def _unknown(what: str, given: object, known: Iterable[str]) -> str:
    return f"there is no {what} {given!r}; there are {', '.join(known)}"
