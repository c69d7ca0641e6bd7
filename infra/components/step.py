"""A component that is no process of ours: something to be made, or a job that lives in the cluster."""

from __future__ import annotations

from typing import ClassVar

from holter.infra.context import StackContext


class Step:
    """Holds no ports and nothing that ``down`` has to stop."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    port_names: ClassVar[tuple[str, ...]] = ()
    fresh_port_names: ClassVar[tuple[str, ...]] = ()
    is_process: ClassVar[bool] = False

    def __init__(self, context: StackContext) -> None:
        self.context = context

    def is_running(self) -> bool:
        return False

    def stop(self) -> None:
        """Nothing runs; what was made stays."""
