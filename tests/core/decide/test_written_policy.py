"""What a person wrote, on its way from a file to `watch`."""

from __future__ import annotations

import math

import pytest

from holter.pipeline.core.decide.written_policy import WrittenPolicy, policy_from_tables, policy_from_text
from holter.pipeline.core.run_operator import watch
from holter.schemas import encode, topics
from holter.schemas.commands import Policy
from tests.core.test_run_operator import ISSUER, KEYRING, PERSON, Loop, calm_rows
from tests.telemetry import ALL_EFFECTS, START_MS

NIGHT = policy_from_tables({"preset": "report", "autonomy": {"rollback": "approve"}, "safety": {"cooldown_steps": 3}})


@pytest.mark.parametrize("written", [NIGHT, WrittenPolicy("report"), WrittenPolicy(), WrittenPolicy(name="night")])
def test_it_travels_as_one_line(written: WrittenPolicy) -> None:
    assert "\n" not in written.text()
    assert policy_from_text(written.text()) == written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("brave", "there is no policy 'brave'"),
        ('{"preset":"brave"}', "there is no policy 'brave'"),
        ('{"settings":{"safety.speed":1}}', "there is no setting 'safety.speed'"),
        ('{"settings":{"cost.lr_cut":7}}', "it must be from 0.1 to 1"),
        ('{"autonomy":{"rollback":"maybe"}}', "is no policy"),
        ("{", "is no policy"),
    ],
)
def test_what_cannot_be_used_is_said(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        policy_from_text(text)


def deployed(text: str) -> Loop:
    loop = Loop(deployment=watch(ISSUER, KEYRING, 7, text))
    loop.send(loop.trainer.event(ALL_EFFECTS))
    loop.steps(calm_rows(50))
    loop.checkpoint()
    loop.steps(calm_rows(50, seed=1))
    return loop


def test_a_deployment_goes_by_the_whole_of_it() -> None:
    loop = deployed(NIGHT.text())
    loop.step(loss=math.nan)
    decision = loop.decisions()[-1]
    assert (decision.policy, decision.mode, decision.held) == ("report", "approve", "waits for approval")
    assert loop.actions() == []


def test_what_is_ordered_for_a_run_goes_before_it() -> None:
    loop = deployed(NIGHT.text())
    ordered = Policy("gpt", "night", "ada", START_MS, "cautious", {"rollback": "auto"})
    loop.send(PERSON.sign(encode(ordered)), topics.COMMANDS)
    loop.deployment = watch(ISSUER, KEYRING, 8, NIGHT.text())
    loop.restart()
    loop.step(loss=math.nan)
    assert loop.decisions()[-1].policy == "cautious"
    assert len(loop.actions()) == 1


def test_another_deployment_brings_its_own_to_runs_for_which_nothing_was_ordered() -> None:
    loop = deployed("patient")
    loop.deployment = watch(ISSUER, KEYRING, 8, "report")
    loop.restart()
    loop.step(loss=math.nan)
    assert loop.decisions()[-1].policy == "report"
