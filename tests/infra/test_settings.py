from __future__ import annotations

from pathlib import Path

import pytest

from holter.infra.errors import StackError
from holter.infra.settings import HomeLayout, home_from_env, settings_from_env
from holter.infra.state import StateFile


def test_the_argument_wins_over_the_environment(tmp_path: Path) -> None:
    environ = {"HOLTER_HOME": "/elsewhere"}
    settings = settings_from_env(environ, tmp_path, policy="patient")
    assert (settings.home, settings.policy) == (tmp_path, "patient")
    assert home_from_env(environ) == Path("/elsewhere")


def test_the_home_is_absolute_because_processes_outlive_the_folder_they_were_started_in() -> None:
    assert home_from_env({}).is_absolute()


def test_a_stack_keeps_the_choices_it_was_brought_up_with(tmp_path: Path) -> None:
    StateFile(HomeLayout(tmp_path).state).set(prefix="team_a", policy="report")
    settings = settings_from_env({}, tmp_path)
    assert (settings.prefix, settings.policy) == ("team_a", "report")


@pytest.mark.parametrize("environ", [{"HOLTER_TOPIC_PREFIX": "team.a"}, {"HOLTER_TASK_SLOTS": "many"}])
def test_what_cannot_be_used_is_said(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(StackError, match="cannot be used"):
        settings_from_env(environ, tmp_path)
