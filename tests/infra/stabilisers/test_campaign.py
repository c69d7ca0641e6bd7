from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer import Typer
from typer.testing import CliRunner

from holter.infra.demo.model import Gpt
from holter.infra.stabilisers import campaign as campaigns
from holter.infra.stabilisers.__main__ import stabilisers
from holter.infra.stabilisers.arms import ARMS
from holter.infra.stabilisers.campaign import QUICK_CAMPAIGN, Campaign, Job, Results
from holter.infra.stabilisers.published import CLAIMS
from holter.infra.stabilisers.setting import QUICK
from holter.infra.stabilisers.trial import Trial, TrialResult, run_trial
from holter.producers.torch import clip, optim

pytestmark = pytest.mark.torch
SMALL = Campaign(("globalgc",), (0,), setting=replace(QUICK, num_steps=2), ordering=None)


def test_every_clipper_and_optimizer_is_in_the_table_with_its_claim() -> None:
    named = {name.replace("_", "-") for name in (*clip.CLIPPERS, *optim.OPTIMIZERS)} - {"clippy-adagrad"}
    assert named <= set(ARMS)
    assert set(ARMS) - {"none"} == set(CLAIMS)


@pytest.mark.parametrize(("arm", "is_clipped"), [("agc", False), ("agc-all", True)])
def test_agc_leaves_the_last_layer_as_its_authors_do(arm: str, is_clipped: bool) -> None:
    """Which in the toy is the embedding too."""
    model = Gpt(QUICK.model())
    for weight in model.parameters():
        weight.grad = torch.full_like(weight, 1e3)
    clipper = ARMS[arm].make_clipper(model)
    assert clipper is not None
    clipper.clip(list(model.parameters()))
    head, other = model.tokens.weight.grad, model.blocks[0].mlp[0].weight.grad  # type: ignore[union-attr, index]
    assert (float(head.max()) < 1e3) == is_clipped  # type: ignore[union-attr]
    assert float(other.max()) < 1e3


def test_what_is_kept_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[Job] = []

    def quickly(self: Campaign, job: Job) -> TrialResult:
        computed.append(job)
        return TrialResult(2.0, 0, 0, None, 0.1)

    monkeypatch.setattr(Campaign, "run_one", quickly)
    results = Results(tmp_path, SMALL)
    results.keep(SMALL.jobs()[0], TrialResult(1.5, 0, 0, None, 0.1))
    campaigns.run(SMALL, results, 1, lambda job: None)
    assert computed == SMALL.jobs()[1:]
    assert results.trials()[SMALL.jobs()[0]].loss == 1.5  # type: ignore[index]
    other = Results(tmp_path, replace(SMALL, setting=replace(QUICK, num_steps=3)))
    assert not other.trials()


def test_a_trial_gives_the_same_numbers_again() -> None:
    trial = Trial("globalgc", "gradient", 0.999, 0)
    setting = replace(QUICK, num_steps=4)
    assert run_trial(trial, setting).loss == run_trial(trial, setting).loss


def test_going_back_when_ordered_repeats_what_was_hurt() -> None:
    setting = replace(QUICK, num_steps=60)
    result = run_trial(Trial("rollback-ordered", "lr", 0.95, 0), setting)
    assert result.num_repeated == 35 + 5 - 25  # the burst is at 35 for 5 steps, the snapshot at 25


def test_an_unknown_stabiliser_is_named_with_those_that_there_are() -> None:
    app = Typer()
    app.command()(stabilisers)
    said = CliRunner().invoke(app, ["--only", "nothing", "--quick"])
    assert said.exit_code == 2
    assert "there is no stabiliser nothing" in said.output


@pytest.mark.services
def test_the_quick_form_ends_with_one_json_object(tmp_path: Path) -> None:
    app = Typer()
    app.command()(stabilisers)
    said = CliRunner().invoke(app, ["--quick", "--jobs", "1", "--folder", str(tmp_path), "--json"])
    assert said.exit_code == 0, said.output
    told = json.loads(said.stdout.splitlines()[-1])
    assert set(told["losses"]) == {
        f"{job.arm}/{job.fault}/{job.beta2:g}" for job in QUICK_CAMPAIGN.jobs() if isinstance(job, Trial)
    }
    assert told["checkfree"]["weighted"]["jump"][0] != told["checkfree"]["random"]["jump"][0]
