"""The data of a loop that owns its loader: it is only read on."""

from __future__ import annotations

from typing import Any

from holter.producers.torch.data_position import DataPosition


class OnwardData(DataPosition):
    """Counts batches, one to an executed step, and never goes back.

    A run whose weights went back goes on with the data that comes next: what was consumed since the checkpoint, the
    data since the onset included, is not met again before the loader's next epoch.
    """

    @property
    def can_go_back(self) -> bool:
        """Whether weights can go back without the same data being replayed into them."""
        return True

    def end_step(self, step: int) -> None:
        self.history.consume(self.history.next_index)
        self.history.end_step(step)

    def state(self) -> dict[str, Any]:
        return {"history": self.history.state()}

    def check(self, state: dict[str, Any]) -> None:
        """Any checkpoint will do: the data does not move."""

    def load(self, state: dict[str, Any]) -> None:
        self.history.load(state["history"], self.history.next_index)
