"""Settings by name."""

from __future__ import annotations

import pytest

from holter.pipeline.core.decide.settings import PolicySettings, SettingError, adjusted, names


def test_defaults_lie_within_their_bounds_and_survive_being_set() -> None:
    settings = PolicySettings()
    for name in names():
        part, _, field = name.partition(".")
        assert adjusted(settings, {name: getattr(getattr(settings, part), field)}) == settings


def test_whole_numbers_stay_whole() -> None:
    cooldown = adjusted(PolicySettings(), {"safety.cooldown_steps": 80.0}).safety.cooldown_steps
    assert (cooldown, type(cooldown)) == (80, int)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("safety.cooldown_steps", 1.5, "must be a whole number"),
        ("safety.cooldown_steps", -1, "must be from 0 to"),
        ("safety.cooldown_steps", float("nan"), "must be from 0 to"),
        ("cost.lr_cut", 0.05, "must be from 0.1 to 1"),
        ("lr_cut", 0.5, "there is no setting 'lr_cut'"),
        ("cost.__class__", 0.5, "there is no setting"),
        ("safety.", 0.5, "there is no setting"),
    ],
)
def test_what_is_wrong_is_said(name: str, value: float, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        adjusted(PolicySettings(), {name: value})
