"""Constants by dotted path, and a search that never sees the family it is scored on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from holter.pipeline.core.signals import SignalSettings
from tests.scoreboard.score import RunScore
from tests.scoreboard.search.candidates import Candidate, at_random, neighbours
from tests.scoreboard.search.evaluate import RunKey, RunScores
from tests.scoreboard.search.leave_out import Plan, search
from tests.scoreboard.search.objective import objective
from tests.scoreboard.search.paths import leaf_paths, value_at, with_values
from tests.scoreboard.search.space import space_around


@dataclass(frozen=True)
class Inner:
    height: float = 1.0
    count: int = 3


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    width: float = 2.0


def test_values_are_replaced_by_path_and_nothing_else() -> None:
    changed = with_values(Outer(), {"inner.height": 5.0, "width": 7.0})
    assert changed == Outer(Inner(height=5.0), 7.0)
    assert value_at(changed, "inner.height") == 5.0
    assert leaf_paths(Outer()) == ["inner.height", "inner.count", "width"]


def test_a_path_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError):
        with_values(Outer(), {"inner.depth": 1.0})


def test_the_space_holds_what_is_shipped_and_more() -> None:
    space = space_around(SignalSettings())
    assert len(space) > 20
    for path, values in space.items():
        assert value_at(SignalSettings(), path) in values, path
        assert len(values) > 1, path
    assert "update_every_records" not in space


def test_random_candidates_are_the_same_for_a_seed_and_within_the_space() -> None:
    space = {"a": (1.0, 2.0, 3.0), "b": (True, False)}
    first, second = (at_random(space, 20, seed=3) for _ in range(2))
    assert first == second
    assert {candidate.choice["a"] for candidate in first} == {1.0, 2.0, 3.0}
    near = neighbours(space, first[0], 5, num_changed=1)
    assert all(sum(near_one.choice[path] != first[0].choice[path] for path in space) <= 1 for near_one in near)


def score(good: bool) -> RunScore:
    return RunScore(100, 90, num_hit=int(good), num_healed=1, num_false=int(not good))


class FakeEvaluator:
    """The run of family x is judged well with low values only, that of y with high ones only."""

    def __init__(self) -> None:
        self.known: dict[Candidate, RunScores] = {}

    def learn(self, candidates: list[Candidate]) -> None:
        for candidate in candidates:
            low = candidate.choice["a"] < 2.0
            self.known[candidate] = {
                RunKey("folder", "first", "x"): score(good=low),
                RunKey("folder", "second", "y"): score(good=not low),
            }


def test_a_family_is_judged_with_what_is_best_for_the_others() -> None:
    """Where families contradict each other, leaving one out must fail on it."""
    found = search(FakeEvaluator(), {"a": (1.0, 3.0)}, Plan(num_random=10, num_rounds=1, num_neighbours=2))  # type: ignore[arg-type]
    assert {family: candidate.choice["a"] for family, candidate in found.chosen.items()} == {"x": 3.0, "y": 1.0}
    assert [run.num_hit for run in found.scores["folder"]] == [0, 0]
    assert found.num_candidates == 2


def test_folders_count_alike_whatever_their_size() -> None:
    by_folder: Mapping[str, list[RunScore]] = {"small": [score(good=True)], "large": [score(good=False)] * 50}
    worse: Mapping[str, list[RunScore]] = {"small": [score(good=False)], "large": [score(good=False)] * 50}
    assert objective(by_folder) > objective(worse) + 0.4
