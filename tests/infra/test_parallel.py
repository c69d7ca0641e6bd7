from __future__ import annotations

import threading

from holter.infra.parallel import reverse, run_in_order

NEEDS = {"jars": (), "broker": ("jars",), "cluster": ("jars",), "job": ("broker", "cluster"), "store": ()}


def test_each_runs_once_after_what_it_needs() -> None:
    done: list[str] = []
    assert run_in_order(NEEDS, done.append) == {}
    assert sorted(done) == sorted(NEEDS)
    assert all(done.index(need) < done.index(name) for name, needs in NEEDS.items() for need in needs)


def test_what_does_not_depend_on_one_another_runs_at_the_same_time() -> None:
    together = threading.Barrier(2, timeout=60)
    errors = run_in_order({"a": (), "b": ()}, lambda _: _wait(together))
    assert errors == {}


def test_a_failure_holds_back_only_what_needs_it() -> None:
    done: list[str] = []

    def act(name: str) -> None:
        if name == "broker":
            raise ValueError("no")
        done.append(name)

    errors = run_in_order(NEEDS, act)
    assert list(errors) == ["broker"]
    assert sorted(done) == ["cluster", "jars", "store"]


def test_a_need_that_was_left_out_is_taken_as_met() -> None:
    done: list[str] = []
    run_in_order({"job": ("broker",)}, done.append)
    assert done == ["job"]


def test_going_down_takes_the_same_way_back() -> None:
    assert reverse(NEEDS) == {
        "jars": ["broker", "cluster"],
        "broker": ["job"],
        "cluster": ["job"],
        "job": [],
        "store": [],
    }


def _wait(barrier: threading.Barrier) -> None:
    barrier.wait()
