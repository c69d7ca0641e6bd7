"""The scalars in a folder of TensorBoard's, also while a run still writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tensorboard.backend.event_processing.directory_watcher import DirectoryDeletedError, DirectoryWatcher
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.backend.event_processing.io_wrapper import IsTensorFlowEventsFile
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.util.tensor_util import make_ndarray

from holter.producers.integrations.scalars import Scalar


class EventFolder:
    """One run's folder, not those below it. Files are read in the order of their names, which begin with a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._watcher = DirectoryWatcher(str(path), EventFileLoader, IsTensorFlowEventsFile)

    def new_scalars(self) -> Iterator[Scalar]:
        """What was written since the last call.

        Raises:
            FileNotFoundError: the folder is gone.
        """
        try:
            for event in self._watcher.Load():
                yield from self._scalars(event)
        except DirectoryDeletedError:
            raise FileNotFoundError(f"the folder {self._path} is gone") from None

    def _scalars(self, event: Event) -> Iterator[Scalar]:
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars":
                yield Scalar(value.tag, float(make_ndarray(value.tensor)), event.step)
