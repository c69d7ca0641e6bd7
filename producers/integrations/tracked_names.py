"""What a tracker's names of metrics are called here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS, LOSS_SCALE, UPDATE_NORM, VAL_LOSS

OWN_PREFIX = "holter/"
"""Of what Holter writes into a tracker: never read back."""

_KNOWN = {
    LOSS: ("loss", "train_loss", "training_loss", "train_loss_step", "loss_train"),
    GRAD_NORM: ("grad_norm", "train_grad_norm", "gradient_norm", "train_gradient_norm", "global_grad_norm", "gnorm"),
    UPDATE_NORM: ("update_norm", "train_update_norm"),
    LEARNING_RATE: ("lr", "learning_rate", "train_lr", "train_learning_rate", "optim_lr"),
    LOSS_SCALE: ("loss_scale", "train_loss_scale"),
    VAL_LOSS: ("val_loss", "eval_loss", "valid_loss", "validation_loss", "loss_val", "loss_eval"),
}
JUDGED = frozenset(_KNOWN)
_BY_NAME = {name: metric for metric, names in _KNOWN.items() for name in names}
_SIGNS = re.compile(r"[^a-z0-9]+")


class TrackedNames:
    """The numbers of a tracker's row by Holter's names.

    Args:
        given: the user's own, ``{"my loss": "train/loss"}``; no known name stands for a metric
            that is here.
    """

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._given = dict(given or {})
        taken = set(self._given.values())
        self._known = {name: metric for name, metric in _BY_NAME.items() if metric not in taken}

    def name(self, name: str) -> str | None:
        """None for what Holter wrote itself.

        >>> names = TrackedNames({"ce": "train/loss"})
        >>> [names.name(each) for each in ("ce", "train/Grad Norm", "acc", "holter/nan")]
        ['train/loss', 'train/grad_norm', 'acc', None]
        """
        if name.startswith(OWN_PREFIX):
            return None
        return self._given.get(name) or self._known.get(_SIGNS.sub("_", name.lower()).strip("_"), name)

    def numbers(self, row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        """Also those in mappings in the row, as ``outer/inner``; a picture, a table or a text is none.

        Of several columns that stand for one metric the first is taken.
        """
        found: dict[str, Any] = {}
        for key, value in row.items():
            if isinstance(value, Mapping):
                found = self.numbers(value, f"{prefix}{key}/") | found
            elif _is_number(value) and (name := self.name(f"{prefix}{key}")) is not None:
                found.setdefault(name, value)
        return found


def _is_number(value: object) -> bool:
    """Numbers, and arrays of one: NumPy's, torch's."""
    if isinstance(value, (str, bytes)):
        return False
    return hasattr(value, "__float__") and getattr(value, "size", None) != 0
