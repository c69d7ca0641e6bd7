from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from holter.pipeline.fit.from_store import SIGNALS_OF_CLOSED_INCIDENTS, gather_from_store
from holter.pipeline.fit.priors import APPLIED_ACTIONS, UNTREATED_INCIDENTS, gather_priors, write_priors
from holter.schemas import codec, encode
from holter.schemas.commands import Policy, Prior


def answering(answers: dict[str, Sequence[Sequence[Any]]]) -> Any:
    return lambda query: answers[query]


def said(run: str, incident: str, state: str, num_records: float, is_treated: bool = False) -> Sequence[Any]:
    return ("p", run, incident, state, is_treated, {"num_records": num_records, "given_back": 0.5})


def test_what_was_left_to_itself_counts_and_the_rest_is_counted() -> None:
    rows = [
        said("night", "a", "recovered", 1.0),
        said("night", "a", "recovered", 20.0),
        said("night", "a", "recovered", 300.0),
        said("night", "b", "lost", 1.0),
        said("noon", "c", "recovered_higher", 1.0),
        said("noon", "d", "recovered", 1.0, is_treated=True),
        said("noon", "e", "rolled_back", 1.0),
        ("p", "old", "f", "lost", False, {}),
        said("slow", "g", "lost", 200.0),
    ]
    gathered = gather_from_store(answering({SIGNALS_OF_CLOSED_INCIDENTS: rows}), max_records=60)
    found = [(incident.group, incident.healed, len(incident.records)) for incident in gathered.incidents]
    assert found == [("p/night", True, 2), ("p/night", False, 1), ("p/noon", True, 1)]
    assert gathered.left_out == {
        "an action was applied": 1,
        "it ended as rolled_back": 1,
        "no features are known": 2,
    }


def test_incidents_of_one_id_in_two_runs_are_two() -> None:
    rows = [said("one", "a", "lost", 1.0), said("two", "a", "recovered", 1.0)]
    gathered = gather_from_store(answering({SIGNALS_OF_CLOSED_INCIDENTS: rows}), max_records=60)
    assert [incident.healed for incident in gathered.incidents] == [False, True]


def test_what_helped_is_counted_by_kind_and_effect_and_so_is_waiting() -> None:
    answers: dict[str, Sequence[Sequence[Any]]] = {
        APPLIED_ACTIONS: [
            ("loss_spike", ["rollback", "skip_range"], "recovered"),
            ("loss_spike", ["rollback"], "worse"),
            ("nan", ["momentum_reset"], "unchanged"),
        ],
        UNTREATED_INCIDENTS: [
            ("loss_spike", "recovered", 7),
            ("loss_spike", "recovered_higher", 2),
            ("loss_spike", "lost", 1),
            ("nan", "rolled_back", 5),
        ],
    }
    assert gather_priors(answering(answers)) == {
        "loss_spike/monitor": Prior(10, 9),
        "loss_spike/rollback": Prior(2, 1),
        "loss_spike/skip_range": Prior(1, 1),
        "nan/momentum_reset": Prior(1, 0),
    }


def test_a_policy_command_takes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "helped.json"
    write_priors(path, {"loss_spike/rollback": Prior(12, 11)})
    priors = msgspec.json.decode(path.read_bytes(), type=dict[str, Prior])
    policy = Policy("p", "r", "ada", 0, priors=priors)
    assert codec.commands.decode(encode(policy)) == policy
