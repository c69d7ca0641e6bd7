"""Each family scored with constants that were chosen on all the other families of all folders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.scoreboard.score import RunScore
from tests.scoreboard.search.candidates import Candidate, Space, at_random, neighbours
from tests.scoreboard.search.evaluate import Evaluator, RunScores
from tests.scoreboard.search.objective import objective


@dataclass(frozen=True)
class Plan:
    """``num_random`` candidates, then ``num_rounds`` times ``num_neighbours`` of the best one of each family.

    The shipped settings are no candidate: whoever chose them had seen every family.
    """

    num_random: int = 60
    num_rounds: int = 2
    num_neighbours: int = 8
    seed: int = 0


@dataclass(frozen=True)
class LeftOut:
    """``scores`` are of each folder's runs, each run judged with the constants of its family."""

    scores: Mapping[str, list[RunScore]]
    chosen: Mapping[str, Candidate]
    num_candidates: int


def search(evaluator: Evaluator, space: Space, plan: Plan) -> LeftOut:
    pools: dict[str, list[Candidate]] = {}
    start = at_random(space, plan.num_random, plan.seed)
    evaluator.learn(start)
    for family in sorted({key.family for key in evaluator.known[start[0]]}):
        pools[family] = list(start)
    for _ in range(plan.num_rounds):
        near = {
            family: neighbours(space, _best(evaluator.known, pool, family), plan.num_neighbours)
            for family, pool in pools.items()
        }
        evaluator.learn(candidate for found in near.values() for candidate in found)
        for family, found in near.items():
            pools[family] += found
    chosen = {family: _best(evaluator.known, pool, family) for family, pool in pools.items()}
    return LeftOut(_pooled(evaluator.known, chosen), chosen, len(evaluator.known))


def _best(known: Mapping[Candidate, RunScores], pool: Iterable[Candidate], left_out: str) -> Candidate:
    """By all families but one. A family's pool grows by neighbours of its own best ones only."""
    return max(pool, key=lambda candidate: objective(_by_folder(known[candidate], left_out)))


def _by_folder(scores: RunScores, left_out: str) -> dict[str, list[RunScore]]:
    folders: dict[str, list[RunScore]] = defaultdict(list)
    for key, score in scores.items():
        if key.family != left_out:
            folders[key.folder].append(score)
    return folders


def _pooled(known: Mapping[Candidate, RunScores], chosen: Mapping[str, Candidate]) -> dict[str, list[RunScore]]:
    folders: dict[str, list[RunScore]] = defaultdict(list)
    for family, candidate in chosen.items():
        for key, score in known[candidate].items():
            if key.family == family:
                folders[key.folder].append(score)
    return folders
