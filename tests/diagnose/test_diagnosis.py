"""Small jobs, of too few nodes for the forest: what is reported, and what nothing changes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holter.pipeline.diagnose.comparable import Job as Logs
from holter.pipeline.diagnose.diagnosis import Diagnosis, diagnose
from holter.pipeline.diagnose.errors import UnusableLogs
from tests.diagnose.scoring import answer_of, grep, score
from tests.diagnose.synthetic.faults import FAULTS
from tests.diagnose.synthetic.job import Job, Plan, Truth

SMALL: dict[str, Any] = {"style": "torch", "num_nodes": 3, "num_iterations": 24}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """A folder with one failed job and two that succeeded."""
    folder = tmp_path_factory.mktemp("jobs")
    truth = Job(Plan(3, fault=FAULTS["gpu-ecc"], **SMALL)).write(folder / "failed")
    for number in (1, 2):
        Job(Plan(100 + number, **SMALL)).write(folder / f"good{number}")
    return folder, truth


def diagnosed(folder: Path, *good: str) -> Diagnosis:
    return diagnose(Logs(folder / "failed"), [Logs(folder / name) for name in good])


def test_the_lines_and_the_iteration_are_found_and_better_than_by_a_search(jobs: tuple[Path, Truth]) -> None:
    folder, truth = jobs
    found = diagnosed(folder, "good1", "good2")
    ours, searched = (score(each, truth, folder / "failed") for each in (answer_of(found), grep(folder / "failed")))
    assert ours.num_found >= 0.9 * ours.num_injected
    assert ours.num_right >= 0.7 * ours.num_reported
    assert searched.num_found < 0.7 * searched.num_injected
    assert ours.iterations_off is not None
    assert ours.iterations_off <= 1
    assert "gpu-ecc" in {each.pattern.name for each in found.symptoms if each.pattern}


def test_without_a_job_that_succeeded_it_says_what_is_missing(jobs: tuple[Path, Truth]) -> None:
    found = diagnosed(jobs[0])
    assert any("--good FOLDER" in note for note in found.notes)
    assert any("nodes are not ranked" in note for note in found.notes)
    assert found.symptoms


def test_nothing_that_a_job_that_succeeded_said_is_reported(jobs: tuple[Path, Truth], tmp_path: Path) -> None:
    shutil.copytree(jobs[0] / "good1", tmp_path / "failed")
    with (tmp_path / "failed" / "node-001.log").open("a") as log:
        log.write("2026-03-01T10:00:00Z [rank1]: ERROR device 3 is on fire\n")
    found = diagnose(Logs(tmp_path / "failed"), [Logs(jobs[0] / "good1")])
    assert [each.template for each in found.symptoms] == ["device <*> is on fire"]


def written(folder: Path, turn: Callable[[list[str]], None]) -> Path:
    """The failed job again, its files made in another order."""
    logs = {path.name: path.read_bytes() for path in (folder / "failed").iterdir()}
    names = sorted(logs)
    turn(names)
    again = folder / f"again-{'-'.join(names)}"
    again.mkdir()
    for name in names:
        (again / name).write_bytes(logs[name])
    return again


def test_the_order_of_files_and_of_jobs_changes_nothing(jobs: tuple[Path, Truth]) -> None:
    folder, _ = jobs
    usual = diagnosed(folder, "good1", "good2")
    again = written(folder, random.Random(1).shuffle)
    turned = diagnose(Logs(again), [Logs(folder / "good2"), Logs(folder / "good1")])
    assert turned.symptoms == usual.symptoms
    assert turned.onset == usual.onset


@settings(max_examples=8)
@given(st.lists(st.tuples(st.integers(0, 6_000), st.binary(min_size=1, max_size=40)), min_size=1, max_size=20))
def test_damaged_logs_are_diagnosed_all_the_same(
    jobs: tuple[Path, Truth], tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[int, bytes]]
) -> None:
    content = bytearray((jobs[0] / "failed" / "node-001.log").read_bytes()[-6_000:])
    for place, patch in damage:
        content[place : place + len(patch)] = patch
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "node-001.log").write_bytes(content)
    assert diagnose(Logs(folder)).intake.num_lines > 0


def test_jobs_of_another_kind_are_not_compared_with(jobs: tuple[Path, Truth]) -> None:
    folder, _ = jobs
    good = [Logs(folder / "good1", "7b/megatron"), Logs(folder / "good2", "70b/megatron")]
    found = diagnose(Logs(folder / "failed", "7b/megatron"), good)
    assert found.compared == (str(folder / "good1"),)
    assert any("good2 was not compared with" in note for note in found.notes)


def test_the_failed_job_cannot_be_its_own_reference(jobs: tuple[Path, Truth]) -> None:
    with pytest.raises(UnusableLogs, match="is the failed job itself"):
        diagnosed(jobs[0], "failed")
