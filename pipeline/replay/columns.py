"""Which column of a log is the loss, which the gradient norm: by the names that trainers give them, or by the user's.

A name is compared in lower case with every other sign than a letter or a digit as one underscore.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from holter.pipeline.replay.errors import UnreadableLog
from holter.pipeline.replay.table import number_of
from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS, LOSS_SCALE, UPDATE_NORM, VAL_LOSS

STEP = "step"

ROLES = {
    "step": STEP,
    "loss": LOSS,
    "grad_norm": GRAD_NORM,
    "update_norm": UPDATE_NORM,
    "lr": LEARNING_RATE,
    "loss_scale": LOSS_SCALE,
    "val_loss": VAL_LOSS,
}
"""What a column may be, by the word the user has for it."""

_KNOWN: dict[str, tuple[str, ...]] = {
    STEP: (
        "step", "global_step", "train_global_step", "trainer_global_step", "current_steps", "iteration", "iter",
        "train_step", "optimizer_step", "num_updates", "update", "updates", "steps", "iterations", "it", "n_iter",
        "_step",
    ),
    LOSS: (
        "loss", "train_loss", "train_loss_step", "lm_loss", "training_loss", "reduced_train_loss", "losses",
        "loss_train", "train_loss_mean", "train_total_loss", "total_loss", "train_ce_loss", "train_cross_entropy_loss",
        "train_crossentropyloss", "ce_loss", "loss_avg", "batch_loss", "actor_loss", "act_loss", "policy_loss",
        "nll_loss", "mlm_loss",
    ),
    GRAD_NORM: (
        "grad_norm", "train_grad_norm", "global_grad_norm", "train_global_grad_norm", "total_grad_norm",
        "optim_total_grad_norm", "gradient_norm", "train_gradient_norm", "grad_norms", "gnorm", "train_gnorm", "norm",
        "gradnorm", "actor_grad_norm", "l2_norm_grad_global", "train_grad_norm_step",
    ),
    UPDATE_NORM: ("update_norm", "train_update_norm", "param_update_norm", "updates_norm"),
    LEARNING_RATE: (
        "lr", "learning_rate", "train_lr", "train_learning_rate", "optim_lr", "learning_rates", "lr_adamw",
        "optim_learning_rate_group0", "lr_group0", "lrate",
    ),
    LOSS_SCALE: ("loss_scale", "amp_loss_scale", "train_loss_scale", "grad_scale", "scaler_scale"),
    VAL_LOSS: (
        "val_loss", "eval_loss", "valid_loss", "validation_loss", "loss_val", "loss_eval", "eval_val_loss",
        "val_losses",
    ),
}  # fmt: skip
"""Names by what they stand for, the more telling first."""

_ROLE_OF = {name: role for role, names in _KNOWN.items() for name in names}
_RANKS = {name: rank for names in _KNOWN.values() for rank, name in enumerate(names)}
_SIGNS = re.compile(r"[^a-z0-9]+")
_NOT_TRAINING = re.compile(
    r"(?:^|_)(?:val|valid|validation|eval|test|dev|ppl|scale|weight|coef|ema|best|min|max|num|value)(?:_|$)"
)
_SUMMARY = re.compile(r"__(?:MIN|MAX)$")


@lru_cache(maxsize=4096)
def normalized(name: str) -> str:
    """A name as it is compared.

    >>> normalized("train/Grad Norm"), normalized("_step"), normalized("fancy-run-12 - train/loss")
    ('train_grad_norm', '_step', 'train_loss')
    """
    own = name.rpartition(" - ")[2].strip().lower()
    plain = _SIGNS.sub("_", own).strip("_")
    return f"_{plain}" if own.startswith("_") else plain


class Chosen(NamedTuple):
    """Columns by what they stand for; ``notes`` say where another choice was possible."""

    by_role: dict[str, str]
    notes: list[str]


class _Roles(dict[str, "str | None"]):
    """Roles by name, each found once."""

    def __init__(self, find: Callable[[str], str | None]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, name: str) -> str | None:
        role = self[name] = self._find(name)
        return role


class ColumnNames:
    """Knows which columns of a log to read, and what each is.

    Args:
        given: the user's own names by role (the words of :data:`ROLES`); they come before all others.
    """

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._given = {ROLES[word]: name for word, name in (given or {}).items()}
        self._roles = _Roles(self._role)

    def role(self, name: str) -> str | None:
        """What a column of this name may stand for; None where it is of no use."""
        return self._roles[name]

    @property
    def step_name(self) -> str:
        """What the readers of plain text call the step, whatever a line calls it."""
        return self._given.get(STEP, "step")

    def wanted(self, values: Mapping[str, object]) -> dict[str, float | None]:
        """The values of use among those of a row; nothing where none but the step is."""
        kept: dict[str, float | None] = {}
        has_more = False
        roles = self._roles
        for name, value in values.items():
            role = roles[name]
            if role is not None:
                kept[name] = value if type(value) is float else number_of(value)
                has_more = has_more or role != STEP
        return kept if has_more else {}

    def choose(self, num_values: Mapping[str, int], seen: Iterable[str]) -> Chosen:
        """One column for each role: of those with at least half as many values as the fullest, the best named.

        Args:
            num_values: how many values each of the columns that were read has.
            seen: the names of all columns.

        Raises:
            UnreadableLog: a column that the user named is not there, or there is nothing to judge.
        """
        chosen: dict[str, str] = {}
        for role, name in self._given.items():
            chosen[role] = _given_column(name, num_values, seen)
        for role in _KNOWN:
            candidates = {name: count for name, count in num_values.items() if count and self.role(name) == role}
            if role not in chosen and candidates:
                chosen[role] = _best_named(candidates)
        if not chosen.keys() & {LOSS, GRAD_NORM, UPDATE_NORM, LOSS_SCALE}:
            raise UnreadableLog(_nothing_to_judge(seen))
        return Chosen(chosen, self._doubts(chosen[LOSS], num_values) if LOSS in chosen else [])

    def _role(self, name: str) -> str | None:
        for role, given in self._given.items():
            if name == given or normalized(name) == normalized(given):
                return role
        if _SUMMARY.search(name):
            return None  # the chart export of a tracker: lowest and highest of what a point stands for
        plain = normalized(name)
        return _ROLE_OF.get(plain) or (LOSS if _looks_like_loss(plain) else None)

    def _doubts(self, loss: str, num_values: Mapping[str, int]) -> list[str]:
        """Says so where the loss only looks like one, or another column has as good a name."""
        if LOSS in self._given:
            return []
        rivals = [name for name, count in num_values.items()
                  if name != loss and 2 * count >= num_values[loss] and self.role(name) == LOSS
                  and _rank(name) == _rank(loss)]  # fmt: skip
        if not rivals and normalized(loss) in _KNOWN[LOSS]:
            return []
        besides = f", not {_listed(rivals)}" if rivals else ""
        return [f"column {loss!r} was taken for the loss{besides}; --map loss=NAME takes another"]


def _looks_like_loss(plain: str) -> bool:
    return "loss" in plain and not _NOT_TRAINING.search(plain)


def _best_named(num_values: Mapping[str, int]) -> str:
    known = {name: count for name, count in num_values.items() if normalized(name) in _RANKS} or num_values
    enough = max(known.values()) / 2
    return min((name for name, count in known.items() if count >= enough), key=_rank)


def _rank(name: str) -> int:
    return _RANKS.get(normalized(name), len(_RANKS))


def _given_column(name: str, num_values: Mapping[str, int], seen: Iterable[str]) -> str:
    if num_values.get(name):
        return name
    wanted = normalized(name)
    for column, count in num_values.items():
        if count and normalized(column) == wanted:
            return column
    if name in seen:
        raise UnreadableLog(f"its column {name!r} holds no numbers")
    raise UnreadableLog(f"it has no column {name!r}; it has {_listed(seen)}")


def _nothing_to_judge(seen: Iterable[str]) -> str:
    return f"no column is known as a loss or a gradient norm (there are {_listed(seen)}): name it with --map loss=NAME"


def _listed(names: Iterable[str]) -> str:
    listed = sorted(set(names))
    shown = ", ".join(" ".join(name[:40].split()) for name in listed[:12])
    return f"{shown} and {len(listed) - 12} more" if len(listed) > 12 else shown or "none"
