"""A policy as a person wrote it, checked against what there is: a preset, autonomy by effect, numbers by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, get_args

import msgspec
from msgspec import Struct

from holter.pipeline.core.decide.policy import PRESETS
from holter.pipeline.core.decide.settings import PolicySettings, SettingError, adjusted, names
from holter.schemas.bounds import Autonomy, EffectName

DEFAULT_PRESET = "expected-cost"
EFFECTS: tuple[EffectName, ...] = get_args(EffectName)
AUTONOMIES: tuple[Autonomy, ...] = get_args(Autonomy)
_NUMBERS = ("safety", "cost")


class WrittenPolicy(Struct, frozen=True, omit_defaults=True):
    """What it leaves out stays as it is."""

    preset: str | None = None
    autonomy: dict[EffectName, Autonomy] = {}
    settings: dict[str, float] = {}
    """By dotted name."""
    name: str = ""
    """Of the file that it was written in."""

    @property
    def label(self) -> str:
        return self.name or self.preset or DEFAULT_PRESET

    def text(self) -> str:
        """On one line, as :func:`policy_from_text` reads it.

        >>> WrittenPolicy("report").text()
        'report'
        """
        is_plain = self == WrittenPolicy(self.preset)
        return self.preset if is_plain and self.preset else msgspec.json.encode(self).decode()


@lru_cache(maxsize=16)
def policy_from_text(text: str) -> WrittenPolicy:
    """The name of a preset, or what :meth:`WrittenPolicy.text` made.

    Raises:
        ValueError: there is no such policy, or it says something that there is not.
    """
    if not text.startswith("{"):
        return WrittenPolicy(checked_preset(text))
    try:
        written = msgspec.json.decode(text, type=WrittenPolicy)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{text[:100]!r} is no policy: {error}") from None
    checked_preset(written.preset)
    checked_settings(written.settings)
    return written


def policy_from_tables(document: Mapping[str, Any], name: str = "") -> WrittenPolicy:
    """From ``preset``, ``[autonomy]``, ``[safety]`` and ``[cost]``.

    Raises:
        ValueError: there is no such key, policy, effect, autonomy or setting; the message says what there is.
    """
    for key, value in document.items():
        if key not in ("preset", "autonomy", *_NUMBERS):
            raise ValueError(_unknown("key", key, ("preset", "[autonomy]", *(f"[{part}]" for part in _NUMBERS))))
        if key != "preset" and not isinstance(value, dict):
            raise ValueError(f"{key} must be a table, [{key}]")
    numbers = {f"{part}.{key}": value for part in _NUMBERS for key, value in document.get(part, {}).items()}
    return WrittenPolicy(
        preset=checked_preset(document.get("preset")),
        autonomy=checked_autonomy(document.get("autonomy", {})),
        settings=checked_settings(numbers),
        name=name,
    )


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


def _unknown(what: str, given: object, known: Iterable[str]) -> str:
    return f"there is no {what} {given!r}; there are {', '.join(known)}"
