from __future__ import annotations

from typing import Any

import torch

from holter.producers.torch.snapshot import Snapshots, num_bytes_of


def _state(size: int) -> dict[str, Any]:
    weight = torch.nn.Parameter(torch.full((size, 3), 1.5))
    return {"model": {"weight": weight, "few": torch.ones(2, dtype=torch.int64)}, "steps": [torch.tensor(3.0), 7]}


def test_a_copy_does_not_change_with_what_it_is_of() -> None:
    state = _state(4)
    taken = Snapshots().take(state)

    with torch.no_grad():
        state["model"]["weight"].zero_()

    assert taken["model"]["weight"].eq(1.5).all()
    assert not taken["model"]["weight"].requires_grad
    assert taken["steps"] == [torch.tensor(3.0), 7]


def test_the_next_copy_is_made_in_the_same_memory() -> None:
    snapshots = Snapshots()
    first = snapshots.take(_state(4))
    place = first["model"]["weight"].data_ptr()

    assert snapshots.take(_state(4))["model"]["weight"].data_ptr() == place


def test_a_state_that_grew_is_copied_whole() -> None:
    snapshots = Snapshots()
    snapshots.take(_state(4))

    grown = snapshots.take({**_state(9), "optimizer": {"exp_avg": torch.ones(5)}})

    assert grown["model"]["weight"].shape == (9, 3)
    assert grown["optimizer"]["exp_avg"].tolist() == [1.0] * 5
    assert grown["steps"][0].item() == 3.0


def test_entries_of_one_type_of_number_lie_together_and_entries_apart() -> None:
    """So that weights are not kept in memory by an optimizer that goes on with its own part."""
    taken = Snapshots().take({"model": {"a": torch.ones(3), "b": torch.ones(70)}, "optimizer": [torch.ones(3)]})
    a, b, moment = (
        each.untyped_storage().data_ptr()
        for each in (taken["model"]["a"], taken["model"]["b"], taken["optimizer"][0])
    )  # fmt: skip

    assert a == b
    assert a != moment


def test_what_has_no_dense_memory_is_copied_by_itself() -> None:
    taken = Snapshots().take({"sparse": torch.eye(3).to_sparse(), "dense": torch.ones(2)})

    assert taken["sparse"].to_dense().equal(torch.eye(3))
    assert taken["dense"].tolist() == [1.0, 1.0]


def test_bytes_are_those_of_the_tensors() -> None:
    assert num_bytes_of(_state(4)) == 4 * 3 * 4 + 2 * 8 + 4
