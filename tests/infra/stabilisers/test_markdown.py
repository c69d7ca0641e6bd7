"""The tables of the document, and that the page shows those of the table that comes with Holter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holter.infra.stabilisers.arms import ARMS
from holter.infra.stabilisers.campaign import Campaign, Job
from holter.infra.stabilisers.document import as_json
from holter.infra.stabilisers.markdown import tables
from holter.infra.stabilisers.measured import MEASURED
from holter.infra.stabilisers.trial import Trial, TrialResult

pytestmark = pytest.mark.torch
PAGE = Path(__file__).parents[3] / "docs" / "stabilisers.md"


def test_the_page_shows_the_table_that_comes_with_holter() -> None:
    page, document = PAGE.read_text(encoding="utf-8"), json.loads(MEASURED.read_text(encoding="utf-8"))
    assert document["setting"] in page
    for table in tables(document):
        assert table in page, f"not in docs/stabilisers.md: {table[:200]}"


def test_every_stabiliser_has_a_row_in_the_table_that_comes_with_holter() -> None:
    losses = json.loads(MEASURED.read_text(encoding="utf-8"))["losses"]
    assert {key.split("/")[0] for key in losses} == set(ARMS)


def ended(job: Job, loss: float) -> dict[Trial, TrialResult]:
    assert isinstance(job, Trial)
    return {job: TrialResult(loss, 0, 0, 40 if job.fault == "lr" else None, 1.0)}


def test_a_column_that_lacks_a_seed_of_one_arm_is_left_out() -> None:
    campaign = Campaign(("none", "zclip"), (0, 1), cells=(("clean", 0.95), ("lr", 0.95)), ordering=None)
    trials = {trial: result for job in campaign.jobs() for trial, result in ended(job, 2.0).items()}
    assert set(as_json(campaign, trials, {})["losses"]) == {
        "none/clean/0.95", "zclip/clean/0.95", "none/lr/0.95", "zclip/lr/0.95"
    }  # fmt: skip
    del trials[Trial("zclip", "lr", 0.95, 1)]
    assert set(as_json(campaign, trials, {})["losses"]) == {"none/clean/0.95", "zclip/clean/0.95"}


def test_a_row_has_the_loss_its_spread_what_the_fault_cost_and_the_steps_back() -> None:
    campaign = Campaign(("none",), (0, 1), cells=(("clean", 0.95), ("lr", 0.95)), ordering=None)
    trials: dict[Trial, TrialResult] = {}
    for job, loss in zip(campaign.jobs(), (2.0, 2.2, 2.3, 2.5), strict=True):
        trials |= ended(job, loss)
    losses, *_ = tables(as_json(campaign, trials, {}))
    assert losses.splitlines()[-1] == "| unclipped | – | 2.100 ± .141 | 2.400 ± .141 (+.300) | 40 |"
